// SPDX-License-Identifier: Apache-2.0
#include "launch/plugin_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "base/file.h"
#include "plugin/embedded/profiler_plugin.h"

namespace stalltrace::launch {
namespace {

namespace fs = std::filesystem;

class Plugin : public testing::Test {
 protected:
  Plugin() : folder_(testing::TempDir() + "run_plugin." + std::to_string(::getpid())) {
    fs::create_directory(folder_);
    if (const char* path = ::getenv("LD_LIBRARY_PATH")) {
      before_ = path;
    }
    ::setenv("LD_LIBRARY_PATH", ("/nowhere:" + folder_).c_str(), 1);
  }
  ~Plugin() override {
    before_ ? ::setenv("LD_LIBRARY_PATH", before_->c_str(), 1) : ::unsetenv("LD_LIBRARY_PATH");
    fs::remove_all(folder_);
  }
  static OwnFolder claim(const std::string& path) {
    auto folder = OwnFolder::claim(path, Readers::kOwner);
    EXPECT_TRUE(folder) << folder.error().what;
    return folder ? std::move(*folder) : OwnFolder();
  }
  std::string folder_;
  std::optional<std::string> before_;
};

TEST_F(Plugin, OursIsKnownByTheFileUnderAnyName) {
  ASSERT_TRUE(write_file(folder_ + "/renamed.so", profiler_plugin()));
  fs::create_symlink(folder_ + "/renamed.so", folder_ + "/link.so");
  ASSERT_TRUE(write_file(folder_ + "/libnccl-profiler-site.so", profiler_plugin()));
  EXPECT_TRUE(is_our_plugin(folder_ + "/renamed.so"));
  EXPECT_TRUE(is_our_plugin(folder_ + "/link.so"));
  EXPECT_TRUE(is_our_plugin("renamed.so")) << "in the job's library path";
  EXPECT_TRUE(is_our_plugin("site"));
}

TEST_F(Plugin, AnothersUnderOurNameIsNotOurs) {
  const std::string path = folder_ + "/" + std::string(kProfilerPluginFile);
  ASSERT_TRUE(write_file(path,
                         "\x7f"
                         "ELF ncclProfiler_v4"));
  EXPECT_FALSE(is_our_plugin(path));
  EXPECT_FALSE(is_our_plugin("stalltrace"));
}

TEST_F(Plugin, AProgramOfItsNameIsPassedOver) {
  ASSERT_TRUE(write_file(folder_ + "/stalltrace", "a program"));
  fs::resize_file(folder_ + "/stalltrace", 100U << 20);
  EXPECT_TRUE(is_our_plugin("stalltrace"));
}

TEST_F(Plugin, WhereTheFileIsNotFoundTheNameCounts) {
  EXPECT_TRUE(is_our_plugin(std::string(kProfilerPluginFile)));
  EXPECT_TRUE(is_our_plugin("stalltrace"));
  EXPECT_FALSE(is_our_plugin("inspector"));
  EXPECT_FALSE(is_our_plugin("none"));
}

TEST_F(Plugin, TheRunsFolderKeepsItButRootsJobFindsItWhereEveryUserCan) {
  std::string path;
  {
    const auto installed = PluginFile::install(claim(folder_));
    ASSERT_TRUE(installed) << installed.error().what;
    path = installed->path();
    EXPECT_EQ(read_file(path).value_or(""), profiler_plugin());
    if (::geteuid() == 0) {
      struct stat info {};
      ASSERT_EQ(::stat(fs::path(path).parent_path().c_str(), &info), 0);
      EXPECT_EQ(info.st_mode & 07777U, 0711U);
    } else {
      EXPECT_EQ(path, folder_ + "/" + std::string(kProfilerPluginFile));
    }
  }
  EXPECT_EQ(fs::exists(path), ::geteuid() != 0);
}

TEST_F(Plugin, APathThatNcclWouldCutIsNotTaken) {
  const std::string deep = folder_ + "/" + std::string(230, 'd');
  std::string elsewhere;
  {
    const auto installed = PluginFile::install(claim(deep));
    ASSERT_TRUE(installed) << installed.error().what;
    elsewhere = installed->path();
    EXPECT_LE(elsewhere.size(), 254U);
    EXPECT_EQ(read_file(elsewhere).value_or(""), profiler_plugin());
  }
  EXPECT_FALSE(fs::exists(fs::path(elsewhere).parent_path())) << "it goes with the run";
  EXPECT_TRUE(fs::is_empty(deep));
}

TEST_F(Plugin, AKilledLaunchersCopyGoesWithTheNextAndALivingOnesStays) {
  ::setenv("TMPDIR", folder_.c_str(), 1);
  const std::string deep = folder_ + "/" + std::string(230, 'd');
  const OwnFolder run = claim(deep);
  fs::create_directory(folder_ + "/stalltrace-plugin-killed");
  ASSERT_TRUE(write_file(folder_ + "/stalltrace-plugin-killed/" + std::string(kProfilerPluginFile), "x"));
  fs::create_directory(folder_ + "/other");
  fs::create_directory_symlink(folder_ + "/other", folder_ + "/stalltrace-plugin-link");
  ASSERT_TRUE(write_file(folder_ + "/other/file", "x"));
  const auto living = PluginFile::install(run);
  ASSERT_TRUE(living) << living.error().what;
  EXPECT_TRUE(living->path().starts_with(folder_ + "/stalltrace-plugin-"));
  EXPECT_FALSE(fs::exists(folder_ + "/stalltrace-plugin-killed"));
  { ASSERT_TRUE(PluginFile::install(run)); }
  EXPECT_TRUE(fs::exists(living->path()));
  EXPECT_TRUE(fs::exists(folder_ + "/other/file"));
  ::unsetenv("TMPDIR");
}

}  // namespace
}  // namespace stalltrace::launch
