// SPDX-License-Identifier: Apache-2.0
// A fake host in a folder, and lines that no kernel should write.
#include "base/process/procfs.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/process/secrets.h"

namespace stalltrace {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::SizeIs;

class ProcfsTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / ("procfs_test_" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  void put(const std::string& name, const std::string& content) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << content;
  }
  [[nodiscard]] Procfs procfs() const { return Procfs(root_.string()); }
  fs::path root_;
};

TEST_F(ProcfsTest, ProcessesAreTheNumberedFolders) {
  for (const char* name : {"12", "7", "self", "sys", "103", "12x", "-3", "0"}) {
    fs::create_directories(root_ / name);
  }
  EXPECT_THAT(procfs().pids(), ElementsAre(7, 12, 103));
  EXPECT_THAT(Procfs((root_ / "none").string()).pids(), SizeIs(0));
}

TEST_F(ProcfsTest, EachMappedFileOnce) {
  put("7/maps",
      "55d0c0000000-55d0c0001000 r--p 00000000 fe:01 100 /usr/bin/python3\n"
      "55d0c0001000-55d0c0002000 r-xp 00001000 fe:01 100 /usr/bin/python3\n"
      "7f0000000000-7f0000001000 r-xp 00001000 fe:01 200 /opt/lib with blank/libnccl.so.2\n"
      "7f0000002000-7f0000003000 r-xp 00005000 fe:01 200 /opt/lib with blank/libnccl.so.2\n"
      "7f0000004000-7f0000005000 r-xp 00000000 fe:02 200 /other/device.so\n"
      "7f0000006000-7f0000007000 rw-p 00000000 00:00 0 \n"
      "7ffc00000000-7ffc00001000 r-xp 00000000 00:00 0 [vdso]\n");
  const auto files = procfs().executable_mappings(7);
  ASSERT_TRUE(files);
  ASSERT_THAT(*files, SizeIs(3));
  EXPECT_EQ((*files)[0].path, "/usr/bin/python3");
  EXPECT_EQ((*files)[0].start, 0x55d0c0001000U);
  EXPECT_EQ((*files)[1].path, "/opt/lib with blank/libnccl.so.2");
  EXPECT_EQ((*files)[1].inode, 200U);
  EXPECT_EQ((*files)[1].device_major, 0xfeU);
  EXPECT_EQ((*files)[2].device_minor, 2U);
  EXPECT_FALSE(procfs().executable_mappings(8));
}

TEST_F(ProcfsTest, TheEnvironmentIsSplitAtZerosAndTheFirstEqualsSign) {
  put("7/environ", std::string("RANK=3\0OPTIONS=a=b\0EMPTY=\0noise\0=odd\0", 38));
  const auto environment = procfs().environment(7);
  ASSERT_TRUE(environment);
  EXPECT_EQ(environment->at("RANK"), "3");
  EXPECT_EQ(environment->at("OPTIONS"), "a=b");
  EXPECT_EQ(environment->at("EMPTY"), "");
  EXPECT_FALSE(environment->contains("noise"));
}

TEST_F(ProcfsTest, TheCommandLineIsJoinedAndBounded) {
  put("7/cmdline", std::string("python3\0-m\0train\0", 17));
  EXPECT_EQ(procfs().command_line(7), "python3 -m train");
  put("8/cmdline", std::string(100'000, 'x'));
  EXPECT_EQ(procfs().command_line(8).size(), 4096U);
  EXPECT_EQ(procfs().command_line(9), "");
}

TEST_F(ProcfsTest, TheCommandLineIsWithoutItsSecretsUnlessAskedForWhole) {
  put("7/cmdline", std::string("train\0--token\0two words\0-v\0", 28));
  EXPECT_EQ(procfs().command_line(7), "train --token *** -v");
  EXPECT_EQ(Procfs(root_.string(), CommandLines::kWhole).command_line(7), "train --token two words -v");
  put("8/cmdline", std::string(4000, 'x') + " postgres://me:" + std::string(500, 's') + "@db");
  EXPECT_EQ(procfs().command_line(8), std::string(4000, 'x') + " postgres://me:***@db") << "what is cut off counts";
}

TEST_F(ProcfsTest, VariablesAreWithoutTheirSecrets) {
  const auto hidden = [](std::string lines) {
    hide_secrets_of_variables(lines);
    return lines;
  };
  EXPECT_EQ(hidden("NCCL_X_TOKEN=a b"), "NCCL_X_TOKEN=***");
  EXPECT_EQ(hidden("A_KEY=a b\nMASTER_PORT=1"), "A_KEY=***\nMASTER_PORT=1");
  EXPECT_EQ(hidden("NCCL_DEBUG=INFO\nNCCL_SOCKET_IFNAME=^lo"), "NCCL_DEBUG=INFO\nNCCL_SOCKET_IFNAME=^lo");
  EXPECT_EQ(hidden(""), "");
}

TEST_F(ProcfsTest, TheStartSurvivesANameWithParentheses) {
  put("7/stat", "7 (a) b) (c) S 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 424242 0 0\n");
  EXPECT_EQ(procfs().start_ticks(7), 424242U);
  EXPECT_EQ(procfs().parent(7), 1);
}

TEST_F(ProcfsTest, ATruncatedStatIsAProcessThatIsGone) {
  for (const char* stat : {"", "7", "7 (name", "7 (name)", "7 (name) ", "7 (name) S 1 2 3", ")"}) {
    put("7/stat", stat);
    EXPECT_EQ(procfs().start_ticks(7), 0U) << stat;
  }
  EXPECT_EQ(procfs().parent(8), 0);
  EXPECT_EQ(procfs().start_ticks(8), 0U);
}

TEST_F(ProcfsTest, ThreadNamesAndNetworkNamespaces) {
  put("7/task/9/comm", "NCCL Progress 0\n");
  put("7/ns/net", "");
  EXPECT_EQ(procfs().thread_name(7, 9), "NCCL Progress 0");
  EXPECT_EQ(procfs().thread_name(7, 10), "");
  EXPECT_NE(procfs().netns(7), 0U);
  EXPECT_EQ(procfs().netns(8), 0U);
}

TEST_F(ProcfsTest, AMappedFileIsOpenedByItsAddress) {
  put("library", "mapped");
  put("other", "at the path by now");
  fs::create_directories(root_ / "7/map_files");
  fs::create_directories(root_ / "7/root/lib");
  fs::create_symlink(root_ / "library", root_ / "7/map_files/1000-2000");
  fs::create_symlink(root_ / "other", root_ / "7/root/lib/x.so");
  struct stat info {};
  ASSERT_EQ(::stat((root_ / "library").c_str(), &info), 0);
  MappedFile file{.start = 0x1000, .end = 0x2000, .inode = info.st_ino, .path = "/lib/x.so"};
  EXPECT_TRUE(procfs().open_mapped(7, file));
  file.inode += 1;
  EXPECT_FALSE(procfs().open_mapped(7, file)) << "another file";
  file.start = 0x3000;
  EXPECT_FALSE(procfs().open_mapped(7, file)) << "a mapping that is gone: its path is not looked at";
}

TEST_F(ProcfsTest, AMappedFileIsNoFifo) {
  fs::create_directories(root_ / "7/map_files");
  const std::string fifo = root_ / "7/map_files/1000-2000";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  struct stat info {};
  ASSERT_EQ(::stat(fifo.c_str(), &info), 0);
  EXPECT_FALSE(procfs().open_mapped(7, {.start = 0x1000, .end = 0x2000, .inode = info.st_ino, .path = "/x"}));
}

TEST_F(ProcfsTest, TheUserIsTheEffectiveOne) {
  put("7/status", "Name:\tx\nUid:\t1000\t1001\t1002\t1003\nGid:\t1\t1\t1\t1\n");
  EXPECT_EQ(procfs().user(7), 1001U);
  EXPECT_FALSE(procfs().user(8));
}

TEST(ParseMapsLine, KeepsWhatTheKernelAppends) {
  const auto file = parse_maps_line("7f00-7f10 r-xp 00000000 fe:01 200    /tmp/libnccl.so.2 (deleted)");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->path, "/tmp/libnccl.so.2 (deleted)");
}

class HostileMapsLine : public testing::TestWithParam<const char*> {};

TEST_P(HostileMapsLine, IsNoMapping) { EXPECT_FALSE(parse_maps_line(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Lines, HostileMapsLine,
                         testing::Values("", " ", "-", "1000", "1000-", "1000-2000", "1000-2000 ", "1000-2000 r",
                                         "1000-2000 r-x", "1000-2000 r-xp", "1000-2000 r-xp ", "1000-2000 r-xp 0",
                                         "1000-2000 r-xp 0 fe", "1000-2000 r-xp 0 fe:01", "1000-2000 r-xp 0 fe:01 5",
                                         "1000-2000 r-xp 0 fe:01 5 relative/path", "1000-2000 r-xp 0 fe:01 0 /no/inode",
                                         "1000-2000 r-xp 0 fe:01 5 [vdso]", "1000-2000 rw-p 0 fe:01 5 /not/executable",
                                         "zz00-2000 r-xp 0 fe:01 5 /x",
                                         "10000000000000000-20000000000000000 r-xp 0 fe:01 5 /too/long",
                                         "1000-2000 r-xp 0 fe:01 99999999999999999999999 /inode",
                                         "1000-2000 r-xp 0 fe:01 -5 /inode", "-1000-2000 r-xp 0 fe:01 5 /x",
                                         "1000-2000 r-xp 0 fe:01 5 "));

TEST(FindMoved, TheSameFileAtAnotherAddress) {
  const MappedFile file{
      .start = 0x1000, .end = 0x9000, .device_major = 8, .device_minor = 1, .inode = 5, .path = "/lib/a.so"};
  MappedFile elsewhere = file;
  elsewhere.device_minor = 2;
  elsewhere.start = 0x20000;
  EXPECT_EQ(find_moved({file, elsewhere}, file), nullptr) << "another file has its inode number and its path";
  MappedFile cut = file;
  cut.end = 0x3000;  // as ld.so leaves the first segment of a library
  const std::vector<MappedFile> now{elsewhere, cut};
  EXPECT_EQ(find_moved(now, file), &now[1]);
}

TEST(OpenMapped, AMappingThatWasCutIsFound) {
  const std::string path = testing::TempDir() + "procfs_test_cut." + std::to_string(::getpid());
  ASSERT_TRUE(write_file(path, std::string(8192, 'x')));
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  void* memory = ::mmap(nullptr, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd.get(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  const Procfs procfs;
  std::optional<MappedFile> mapping;
  for (const MappedFile& one : procfs.executable_mappings(::getpid()).value_or(std::vector<MappedFile>())) {
    mapping = one.start == reinterpret_cast<uint64_t>(memory) ? std::optional(one) : mapping;
  }
  ASSERT_TRUE(mapping);
  ASSERT_EQ(::munmap(static_cast<char*>(memory) + 4096, 4096), 0);
  EXPECT_TRUE(procfs.open_mapped(::getpid(), *mapping));
  ::munmap(memory, 4096);
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace stalltrace
