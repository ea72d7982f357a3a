// SPDX-License-Identifier: Apache-2.0
#include "launch/run_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "base/file.h"
#include "plugin/embedded/profiler_plugin.h"

namespace stalltrace::launch {
namespace {

namespace fs = std::filesystem;

class Claim : public testing::Test {
 protected:
  Claim() : folder_(testing::TempDir() + "run_folder." + std::to_string(::getpid())) { fs::create_directory(folder_); }
  ~Claim() override { fs::remove_all(folder_); }

  [[nodiscard]] RunFolder claim(const std::string& name) const {
    auto folder = claim_run_folder(folder_ + "/" + name);
    EXPECT_TRUE(folder) << folder.error().what;
    return folder ? std::move(*folder) : RunFolder{};
  }
  std::string folder_;
};

TEST_F(Claim, OneThatIsTakenGetsANumber) {
  EXPECT_EQ(claim("run").path, folder_ + "/run");
  EXPECT_EQ(claim("run").path, folder_ + "/run-2");
  EXPECT_EQ(claim("run/").path, folder_ + "/run-3");
}

TEST_F(Claim, ARecordingMakesItTakenToo) {
  fs::create_directory(folder_ + "/run");
  ASSERT_TRUE(write_file(folder_ + "/run/trace.db", "x"));
  EXPECT_EQ(claim("run").path, folder_ + "/run-2");
  EXPECT_EQ(read_file(folder_ + "/run/trace.db").value_or(""), "x");
}

TEST_F(Claim, ParentsAreMadeAndAFileInTheWayIsAnError) {
  EXPECT_EQ(claim("a/b/run").path, folder_ + "/a/b/run");
  ASSERT_TRUE(write_file(folder_ + "/file", ""));
  EXPECT_FALSE(claim_run_folder(folder_ + "/file"));
  EXPECT_FALSE(claim_run_folder(folder_ + "/file/run"));
}

TEST_F(Claim, WhatCameToNothingIsRemoved) {
  const RunFolder folder = claim("run");
  ASSERT_TRUE(write_profiler_plugin(folder.path));
  folder.remove_if_empty();
  EXPECT_FALSE(fs::exists(folder.path));
}

TEST_F(Claim, WhatHasEvidenceStays) {
  for (const char* file : {"nccl.host.1.log", "trace.db", "profiler/stalltrace-1-1.profiler"}) {
    const RunFolder folder = claim("run");
    ASSERT_TRUE(write_profiler_plugin(folder.path));
    ASSERT_TRUE(write_file(folder.path + "/" + file, "x"));
    folder.remove_if_empty();
    EXPECT_TRUE(fs::exists(folder.path + "/" + file)) << file;
    EXPECT_TRUE(fs::exists(folder.profiler_folder())) << file;
    EXPECT_TRUE(fs::exists(folder.path + "/" + std::string(kProfilerPluginFile))) << file;
    fs::remove_all(folder.path);
  }
}

TEST_F(Claim, AJobThatNeverStartedLeavesNoRecordingButWhatWasThereBefore) {
  fs::create_directory(folder_ + "/mine");
  const RunFolder folder = claim("mine");
  ASSERT_TRUE(write_file(folder.recording(), "x"));
  ASSERT_TRUE(write_file(folder.recording() + "-wal", "x"));
  folder.discard();
  EXPECT_TRUE(fs::is_empty(folder_ + "/mine")) << "the folder is the user's, what was in it is ours";
}

TEST_F(Claim, OnlyItsOwnerMayReadItUnlessAskedFor) {
  const auto mode_of = [](const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 0777U : 0;
  };
  const RunFolder closed = claim("closed");
  EXPECT_EQ(mode_of(closed.path), 0700U);
  EXPECT_EQ(mode_of(closed.profiler_folder()), 0700U);
  const auto open = claim_run_folder(folder_ + "/open", Readers::kAllUsers);
  ASSERT_TRUE(open) << open.error().what;
  EXPECT_EQ(mode_of(open->path), 0755U);
}

TEST_F(Claim, ATemporaryOneHasItsLastPartInItsName) {
  const auto folder = temporary_run_folder(folder_ + "/a/my-run");
  ASSERT_TRUE(folder) << folder.error().what;
  EXPECT_NE(folder->path.find("/my-run-"), std::string::npos);
  EXPECT_TRUE(fs::is_directory(folder->profiler_folder()));
  folder->remove_if_empty();
  EXPECT_FALSE(fs::exists(folder->path));
}

TEST_F(Claim, NcclsLogHasNoOtherPatternsThanOurs) {
  EXPECT_TRUE(claim("100%h").log_pattern().ends_with("/100%%h/nccl.%h.%p.log"));
}

TEST(DefaultRunFolder, NamesTheNodeInOneWord) {
  EXPECT_EQ(default_run_folder("rack7-node3"), "stalltrace-run-rack7-node3");
  EXPECT_EQ(default_run_folder("../my node"), "stalltrace-run-.._my_node");
}

}  // namespace
}  // namespace stalltrace::launch
