// SPDX-License-Identifier: Apache-2.0
#include "base/files/disposable_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

namespace stalltrace {
namespace {

namespace fs = std::filesystem;

TEST(DisposableFolder, IsGoneWithItsContentAtItsEnd) {
  std::string path;
  {
    const auto folder = DisposableFolder::make("stalltrace-test-");
    ASSERT_TRUE(folder.has_value()) << folder.error().what;
    path = folder->path();
    std::ofstream(path + "/file") << "content";
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(DisposableFolder, IsGoneWhenItsProcessIsKilled) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto folder = DisposableFolder::make("stalltrace-test-");
    const std::string path = folder ? folder->path() + "\n" : "\n";
    static_cast<void>(!::write(ends[1], path.data(), path.size()));
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  ::close(ends[1]);
  std::string path(4096, '\0');
  path.resize(static_cast<size_t>(std::max<ssize_t>(::read(ends[0], path.data(), path.size()), 1)) - 1);
  ::close(ends[0]);
  ASSERT_FALSE(path.empty());
  for (int i = 0; i < 500 && fs::exists(path); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace stalltrace
