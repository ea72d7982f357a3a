// SPDX-License-Identifier: Apache-2.0
#include "base/untrusted/untrusted_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "tests/support/golden_text.h"

namespace stalltrace {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class UntrustedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("untrusted_file_test_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    std::ofstream(folder_ / "file") << std::string(8192, 'x');
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string at(const std::string& name) const { return (folder_ / name).string(); }
  /// Adds a process of this user, in a user namespace with that root.
  void put_process(pid_t pid, uid_t user, uid_t root) {
    fs::create_directories(folder_ / std::to_string(pid));
    std::ofstream(folder_ / std::to_string(pid) / "status") << "Uid:\t1\t" << user << "\t1\t1\n";
    std::ofstream(folder_ / std::to_string(pid) / "uid_map") << "         0       " << root << "          1\n";
  }
  fs::path folder_;
};

TEST_F(UntrustedFileTest, ItIsTheFileThatWasOpened) {
  const auto opened = UntrustedFile::open_path(at("file"));
  ASSERT_TRUE(opened) << opened.error().what;
  fs::rename(folder_ / "file", folder_ / "moved");
  std::ofstream(folder_ / "file") << "another";
  EXPECT_EQ(read_file(opened->path())->size(), 8192U);
  EXPECT_NE(UntrustedFile::open_path(at("file"))->identity(), opened->identity());
  EXPECT_EQ(UntrustedFile::open_path(at("moved"))->identity().file, opened->identity().file);
}

TEST_F(UntrustedFileTest, WhatIsNoFileIsRefusedAtOnce) {
  ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0600), 0);
  for (const std::string& path : {at("fifo"), at("nothing"), at(""), std::string("/dev/null")}) {
    EXPECT_FALSE(UntrustedFile::open_path(path)) << path;
  }
}

TEST_F(UntrustedFileTest, AChangeIsSeen) {
  const auto opened = UntrustedFile::open_path(at("file"));
  ASSERT_TRUE(opened);
  EXPECT_TRUE(opened->is_unchanged());
  ASSERT_EQ(::truncate(at("file").c_str(), 100), 0);
  EXPECT_FALSE(opened->is_unchanged());
}

TEST_F(UntrustedFileTest, AForgedTimeDoesNotMakeItAnother) {
  const auto before = UntrustedFile::open_path(at("file"));
  ASSERT_TRUE(before);
  const auto time = fs::last_write_time(folder_ / "file");
  ::usleep(20'000);
  std::ofstream(folder_ / "file") << std::string(8192, 'y');
  fs::last_write_time(folder_ / "file", time);
  const auto after = UntrustedFile::open_path(at("file"));
  ASSERT_TRUE(after);
  EXPECT_EQ(after->identity().modified_ns, before->identity().modified_ns);
  EXPECT_NE(after->identity(), before->identity()) << "the time of change is the kernel's";
}

TEST_F(UntrustedFileTest, AMappedFileIsOpenedWhateverItsPathLeadsTo) {
  const UniqueFd fd(::open(at("file").c_str(), O_RDONLY | O_CLOEXEC));
  void* memory = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd.get(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  const Procfs procfs;
  Mounts mounts(procfs);
  const auto start = reinterpret_cast<uint64_t>(memory);
  std::optional<MappedFile> mapping;
  for (const MappedFile& one : procfs.executable_mappings(::getpid()).value_or(std::vector<MappedFile>())) {
    mapping = one.start == start ? std::optional(one) : mapping;
  }
  ASSERT_TRUE(mapping);
  fs::remove(folder_ / "file");
  ASSERT_EQ(::mkfifo((at("file") + " (deleted)").c_str(), 0600), 0);
  const auto opened = UntrustedFile::open_mapped(procfs, mounts, ::getpid(), *mapping);
  if (::geteuid() == 0) {  // other users may only open it by its path, where a FIFO is
    ASSERT_TRUE(opened);
    EXPECT_EQ(opened->identity().size, 8192);
    const auto sent = UntrustedFile::adopt(opened->duplicate(), opened->facts());
    ASSERT_TRUE(sent);
    EXPECT_EQ(sent->identity(), opened->identity());
    EXPECT_EQ(sent->owner(), opened->owner());
    EXPECT_TRUE(sent->is_remote());
  } else {
    EXPECT_FALSE(opened);
  }
  EXPECT_FALSE(UntrustedFile::adopt(UniqueFd(), "?"));
  mapping->device_major = 4095;
  EXPECT_EQ(UntrustedFile::open_mapped(procfs, mounts, ::getpid(), *mapping).error(), OpenRefusal::kRemote);
  ::munmap(memory, 4096);
}

/// What a process maps is judged by its device, and may be another file by the time it is opened.
TEST_F(UntrustedFileTest, AFileOnAnotherFileSystemThanTheOneJudgedIsNotOpened) {
  const UniqueFd fd(::open(at("file").c_str(), O_RDONLY | O_CLOEXEC));
  void* memory = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd.get(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  struct statx info {};
  ASSERT_EQ(::statx(fd.get(), "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_MNT_ID, &info), 0);
  const MappedFile mapping{.start = reinterpret_cast<uint64_t>(memory),
                           .end = reinterpret_cast<uint64_t>(memory) + 4096,
                           .device_major = 7,
                           .device_minor = 7,
                           .inode = info.stx_ino,
                           .path = at("file")};
  const fs::path process = folder_ / std::to_string(::getpid());
  fs::create_directories(process);
  for (const char* name : {"map_files", "ns", "root"}) {
    fs::create_symlink(fs::path("/proc/self") / name, process / name);
  }
  const auto opened_with = [&](const std::string& type) {
    std::ofstream(process / "mountinfo") << "1 1 7:7 / /x rw - ext4 a rw\n"
                                         << info.stx_mnt_id << " 1 0:99 / /y rw - " << type << " b rw\n";
    const Procfs procfs(folder_.string());
    Mounts mounts(procfs);
    return UntrustedFile::open_mapped(procfs, mounts, ::getpid(), mapping);
  };
  EXPECT_TRUE(opened_with("btrfs")) << "a subvolume has a device of its own";
  const auto refused = opened_with("fuse.x");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), OpenRefusal::kRemote);
  ::munmap(memory, 4096);
}

TEST_F(UntrustedFileTest, WhoseFilesAreTrusted) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root: files of other users";
  }
  const Procfs procfs(folder_.string());
  put_process(7, 1000, 0);
  put_process(8, 1000, 5000);  // in a container of user 5000
  const auto reason = [&](pid_t pid, uid_t owner, gid_t group, mode_t mode, const TrustedOwners& trusted = {}) {
    EXPECT_EQ(::chown(at("file").c_str(), owner, group), 0);
    EXPECT_EQ(::chmod(at("file").c_str(), mode), 0);
    return reason_for_distrust(procfs, pid, *UntrustedFile::open_path(at("file")), trusted).value_or("");
  };
  EXPECT_EQ(reason(7, 0, 0, 0755), "");
  EXPECT_EQ(reason(7, 1000, 1000, 0755), "");
  EXPECT_EQ(reason(7, 1000, 1000, 0775), "") << "a group of its own is the user";
  golden::expect_text(reason(7, 1001, 1001, 0755));
  golden::expect_text(reason(7, 1000, 100, 0775));
  golden::expect_text(reason(7, 0, 0, 0757));
  EXPECT_EQ(reason(8, 5000, 5000, 0755), "");
  golden::expect_text(reason(7, 5000, 5000, 0755));
  golden::expect_text(reason(9, 1000, 1000, 0755));  // a process that is gone has no user
  EXPECT_EQ(reason(7, 1001, 1001, 0775, {.users = {1001}}), "");
  golden::expect_text(reason(7, 1001, 1001, 0757, {.users = {1001}}));
  EXPECT_NE(reason(7, 1001, 100, 0775, {.users = {1001}}), "");
  EXPECT_EQ(reason(7, 1001, 100, 0777, {.any_user = true}), "");
  EXPECT_NE(reason(7, 1001, 1001, 0755, {.users = {1002}}), "");
}

}  // namespace
}  // namespace stalltrace
