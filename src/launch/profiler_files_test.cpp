// SPDX-License-Identifier: Apache-2.0
#include "launch/profiler_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <optional>

#include "base/clock.h"
#include "base/file.h"
#include "base/process/procfs.h"
#include "base/process/subprocess.h"
#include "base/text.h"
#include "blackbox/testing/made_profiler_file.h"
#include "launch/memory_folders.h"
#include "tests/support/golden_text.h"

namespace stalltrace::launch {
namespace {

namespace fs = std::filesystem;

class FilesOfARun : public testing::Test {
 protected:
  FilesOfARun() : folder_("/dev/shm/profiler_files_test." + std::to_string(::getpid())) {
    fs::create_directories(memory());
    fs::create_directories(kept());
  }
  ~FilesOfARun() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string memory() const { return folder_ + "/memory"; }
  [[nodiscard]] std::string kept() const { return folder_ + "/kept"; }
  [[nodiscard]] std::string lines() const { return lines_; }
  ProfilerFiles make(const std::string& chosen = "") {
    return ProfilerFiles(
        kept(), chosen, [this](const std::string& line) { lines_ += line + "\n"; }, memory());
  }
  std::vector<std::string> collect(ProfilerFiles& files) {
    return files.collect([this](const std::string& line) { lines_ += line + "\n"; });
  }

  std::string folder_;
  std::string lines_;
};

blackbox::MadeProfilerFile file_of(uint64_t start_ticks) {
  blackbox::MadeProfilerFile file;
  file.append(blackbox::MadeProfilerFile::collective(0, 1'000'000'200, 1'000'000'900));
  file.header.process_start_ticks = start_ticks;
  const std::string boot(trim(read_file("/proc/sys/kernel/random/boot_id").value_or("")));
  boot.copy(file.header.boot_id, sizeof file.header.boot_id - 1);
  return file;
}

/// A process that holds the lock of a file's writer until its end.
Result<Subprocess> writer_of(const std::string& path) {
  return Subprocess::spawn({.argv = {"python3", "-c",
                                     "import fcntl, sys, time\n"
                                     "f = open(sys.argv[1], 'r+b')\n"
                                     "fcntl.lockf(f, fcntl.LOCK_EX, 1, 0)\n"
                                     "open(sys.argv[1] + '.locked', 'w').close()\n"
                                     "time.sleep(60)\n",
                                     path}});
}

bool wait_for(const std::string& path) {
  for (int i = 0; i < 1000 && !fs::exists(path); ++i) {
    ::usleep(10'000);
  }
  return fs::exists(path);
}

TEST_F(FilesOfARun, LieInMemoryOfThisUserAloneAndAreMovedAtTheEnd) {
  ProfilerFiles files = make();
  ASSERT_TRUE(files.in_memory()) << lines();
  EXPECT_TRUE(files.folder().starts_with(memory() + "/stalltrace-run-"));
  struct stat info {};
  ASSERT_EQ(::stat(files.folder().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
  const blackbox::MadeProfilerFile file = file_of(1);
  file.write(files.folder() + "/stalltrace-1-1.profiler");
  EXPECT_EQ(collect(files), std::vector<std::string>{kept() + "/stalltrace-1-1.profiler"});
  EXPECT_EQ(read_file(kept() + "/stalltrace-1-1.profiler").value_or(""), file.bytes());
  ASSERT_EQ(::stat((kept() + "/stalltrace-1-1.profiler").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  EXPECT_TRUE(fs::is_empty(memory()));
}

TEST_F(FilesOfARun, WithoutMemoryTheyLieInTheRunsFolderAndThatIsReported) {
  ProfilerFiles files(
      kept(), "", [this](const std::string& line) { lines_ += line; }, "/proc");
  EXPECT_FALSE(files.in_memory());
  EXPECT_EQ(files.folder(), kept());
  golden::expect_text(lines(), {{kept(), "KEPT"}, {files.folder(), "MEMORY"}});
  file_of(1).write(kept() + "/stalltrace-1-1.profiler");
  EXPECT_EQ(collect(files), std::vector<std::string>{kept() + "/stalltrace-1-1.profiler"});
}

TEST_F(FilesOfARun, OneWhoseNameIsTakenAwayIsKept) {
  ProfilerFiles files = make();
  file_of(1).write(files.folder() + "/stalltrace-1-1.profiler");
  files.update();
  fs::remove_all(files.folder());
  collect(files);
  EXPECT_EQ(read_file(kept() + "/stalltrace-1-1.profiler").value_or(""), file_of(1).bytes());
}

TEST_F(FilesOfARun, OneOfAProcessThatGoesOnStaysInMemoryToo) {
  ProfilerFiles files = make();
  const std::string path = files.folder() + "/stalltrace-1-1.profiler";
  file_of(1).write(path);
  file_of(2).write(files.folder() + "/stalltrace-2-2.profiler");
  auto writer = writer_of(path);
  ASSERT_TRUE(writer) << writer.error().what;
  ASSERT_TRUE(wait_for(path + ".locked"));
  const auto collected = collect(files);
  EXPECT_EQ(collected, (std::vector<std::string>{path, kept() + "/stalltrace-2-2.profiler"}));
  EXPECT_TRUE(fs::exists(path));
  EXPECT_TRUE(fs::exists(kept() + "/stalltrace-1-1.profiler"));
  golden::expect_text(lines(), {{kept(), "KEPT"}, {files.folder(), "MEMORY"}});
}

TEST_F(FilesOfARun, WhatCantBeCopiedStaysWhereItIs) {
  ProfilerFiles files = make();
  const std::string path = files.folder() + "/stalltrace-1-1.profiler";
  file_of(1).write(path);
  fs::remove_all(kept());
  EXPECT_EQ(collect(files), std::vector<std::string>{path});
  EXPECT_TRUE(fs::exists(path));
  golden::expect_text(lines(), {{kept(), "KEPT"}, {files.folder(), "MEMORY"}});
}

TEST_F(FilesOfARun, AreSavedWhileTheJobStillRuns) {
  ProfilerFiles files = make();
  file_of(1).write(files.folder() + "/stalltrace-1-1.profiler");
  files.save_soon();
  files.save_soon();
  EXPECT_TRUE(wait_for(kept() + "/stalltrace-1-1.profiler"));
  EXPECT_TRUE(fs::exists(files.folder() + "/stalltrace-1-1.profiler"));
}

TEST_F(FilesOfARun, InAFolderThatWasChosenOnlyTheJobsCountAndTheyStay) {
  const std::string chosen = folder_ + "/chosen";
  fs::create_directory(chosen);
  ProfilerFiles files = make(chosen);
  EXPECT_EQ(files.folder(), chosen);
  EXPECT_TRUE(fs::is_empty(memory()));
  const uint64_t now = Procfs().start_ticks(::getpid());
  file_of(now + 10).write(chosen + "/stalltrace-2-2.profiler");
  file_of(now - 10).write(chosen + "/stalltrace-1-1.profiler");
  blackbox::MadeProfilerFile of_another_boot = file_of(now + 10);
  of_another_boot.header.boot_id[0] ^= 1;
  of_another_boot.write(chosen + "/stalltrace-3-3.profiler");
  EXPECT_EQ(collect(files), std::vector<std::string>{chosen + "/stalltrace-2-2.profiler"});
  EXPECT_TRUE(fs::is_empty(kept()));
  EXPECT_TRUE(fs::exists(chosen + "/stalltrace-2-2.profiler"));
}

TEST_F(FilesOfARun, ThoseOfAKilledLauncherAreReported) {
  std::string left;
  {
    ProfilerFiles files = make();
    left = files.folder();
    file_of(1).write(left + "/stalltrace-1-1.profiler");
    make();  // next to a launcher that lives
    EXPECT_EQ(lines(), "");
  }
  make();
  EXPECT_NE(lines().find(left), std::string::npos) << lines();
  EXPECT_TRUE(fs::exists(left + "/stalltrace-1-1.profiler"));
}

TEST_F(FilesOfARun, WhatAKilledLauncherLeftEmptyOrLongAgoIsRemoved) {
  const std::string empty = memory() + "/stalltrace-run-empty";
  const std::string old = memory() + "/stalltrace-run-old";
  const std::string fresh = memory() + "/stalltrace-run-fresh";
  for (const std::string& folder : {empty, old, fresh}) {
    fs::create_directory(folder);
  }
  blackbox::MadeProfilerFile file = file_of(1);
  file.header.created_ns = file.header.heartbeat_ns = file.header.closed_ns = 1;
  file.write(old + "/stalltrace-1-1.profiler");
  file.header.created_ns = static_cast<uint64_t>(monotonic_now_ns());
  file.write(fresh + "/stalltrace-1-1.profiler");
  report_of_earlier_folders(
      memory(), [this](const std::string& line) { lines_ += line; }, 60 * kNsPerSecond);
  EXPECT_FALSE(fs::exists(empty));
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh));
}

TEST(CopySparse, CopiesEveryByteAndNoZeros) {
  const std::string folder = testing::TempDir() + "copy_sparse." + std::to_string(::getpid());
  fs::create_directory(folder);
  std::string content(5U << 20, '\0');
  content.replace((2U << 20) + 7, 3, "abc");
  ASSERT_TRUE(write_file(folder + "/from", content));
  const UniqueFd from(::open((folder + "/from").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(copy_sparse(from.get(), folder + "/to", {}));
  EXPECT_TRUE(read_file(folder + "/to").value_or("") == content);
  struct stat info {};
  ASSERT_EQ(::stat((folder + "/to").c_str(), &info), 0);
  EXPECT_LE(info.st_blocks * 512, 1 << 20);
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_FALSE(copy_sparse(from.get(), folder + "/other", stopped.get_token()));
  EXPECT_FALSE(fs::exists(folder + "/other"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 2) << "from and to";
  fs::remove_all(folder);
}

}  // namespace
}  // namespace stalltrace::launch
