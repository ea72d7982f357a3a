// SPDX-License-Identifier: Apache-2.0
#include "plugin/embedded/profiler_plugin.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

namespace stalltrace {
namespace {

TEST(ProfilerPlugin, TheWrittenFileIsAPluginForEveryVersionOfNccl) {
  const std::string folder = testing::TempDir() + "embedded." + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  const auto path = write_profiler_plugin(folder);
  ASSERT_TRUE(path) << path.error().what;
  struct stat status {};
  ASSERT_EQ(::stat(path->c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0755U);
  void* library = ::dlopen(path->c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr) << ::dlerror();
  for (const char* name : {"ncclProfiler_v1", "ncclProfiler_v2", "ncclProfiler_v3", "ncclProfiler_v4",
                           "ncclProfiler_v5", "ncclProfiler_v6"}) {
    EXPECT_NE(::dlsym(library, name), nullptr) << name;
  }
  ::dlclose(library);
  std::filesystem::remove_all(folder);
}

TEST(ProfilerPlugin, AFolderThatIsNotThereIsAnError) { EXPECT_FALSE(write_profiler_plugin("/nowhere/at/all")); }

}  // namespace
}  // namespace stalltrace
