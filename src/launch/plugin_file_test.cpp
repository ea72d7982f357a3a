// SPDX-License-Identifier: Apache-2.0
#include "launch/plugin_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "base/file.h"
#include "plugin/embedded/profiler_plugin.h"

namespace stalltrace::launch {
namespace {

namespace fs = std::filesystem;

class Plugin : public testing::Test {
 protected:
  Plugin() : place_(testing::TempDir() + "run_plugin." + std::to_string(::getpid())) {
    fs::create_directory(place_);
    if (const char* path = ::getenv("LD_LIBRARY_PATH")) {
      before_ = path;
    }
    ::setenv("LD_LIBRARY_PATH", ("/nowhere:" + place_).c_str(), 1);
  }
  ~Plugin() override {
    before_ ? ::setenv("LD_LIBRARY_PATH", before_->c_str(), 1) : ::unsetenv("LD_LIBRARY_PATH");
    fs::remove_all(place_);
  }
  std::string place_;
  std::optional<std::string> before_;
};

TEST_F(Plugin, OursIsKnownByTheFileUnderAnyName) {
  ASSERT_TRUE(write_file(place_ + "/renamed.so", profiler_plugin()));
  fs::create_symlink(place_ + "/renamed.so", place_ + "/link.so");
  ASSERT_TRUE(write_file(place_ + "/libnccl-profiler-site.so", profiler_plugin()));
  EXPECT_TRUE(is_our_plugin(place_ + "/renamed.so"));
  EXPECT_TRUE(is_our_plugin(place_ + "/link.so"));
  EXPECT_TRUE(is_our_plugin("renamed.so")) << "in the job's library path";
  EXPECT_TRUE(is_our_plugin("site"));
}

TEST_F(Plugin, AnothersUnderOurNameIsNotOurs) {
  const std::string path = place_ + "/" + std::string(kProfilerPluginFile);
  ASSERT_TRUE(write_file(path,
                         "\x7f"
                         "ELF ncclProfiler_v4"));
  EXPECT_FALSE(is_our_plugin(path));
  EXPECT_FALSE(is_our_plugin("stalltrace"));
}

TEST_F(Plugin, WhereTheFileIsNotFoundTheNameCounts) {
  EXPECT_TRUE(is_our_plugin(std::string(kProfilerPluginFile)));
  EXPECT_TRUE(is_our_plugin("stalltrace"));
  EXPECT_FALSE(is_our_plugin("inspector"));
  EXPECT_FALSE(is_our_plugin("none"));
}

TEST_F(Plugin, TheRunsFolderIsItsPlaceAndKeepsIt) {
  { ASSERT_EQ(PluginFile::place(place_)->path(), place_ + "/" + std::string(kProfilerPluginFile)); }
  EXPECT_TRUE(fs::exists(place_ + "/" + std::string(kProfilerPluginFile)));
}

TEST_F(Plugin, APathThatNcclWouldCutIsNotTaken) {
  const std::string deep = place_ + "/" + std::string(230, 'd');
  fs::create_directory(deep);
  std::string elsewhere;
  {
    const auto placed = PluginFile::place(deep);
    ASSERT_TRUE(placed) << placed.error().what;
    elsewhere = placed->path();
    EXPECT_LE(elsewhere.size(), 254U);
    EXPECT_EQ(read_file(elsewhere).value_or(""), profiler_plugin());
  }
  EXPECT_FALSE(fs::exists(fs::path(elsewhere).parent_path())) << "it goes with the run";
  EXPECT_TRUE(fs::is_empty(deep));
}

TEST_F(Plugin, AFolderThatCantBeWrittenIsNoReasonNotToStart) {
  const auto placed = PluginFile::place("/proc");
  ASSERT_TRUE(placed) << placed.error().what;
  EXPECT_TRUE(fs::exists(placed->path()));
}

}  // namespace
}  // namespace stalltrace::launch
