// SPDX-License-Identifier: Apache-2.0
// Children that outlive SIGKILL can't be made at will: these get a signal that does nothing.
#include "base/untrusted/killed_children.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

namespace stalltrace {
namespace {

pid_t start_child() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  return child;
}

TEST(KilledChildren, ThoseThatHangAreCountedByWhatTheyDid) {
  constexpr int kNoSignal = 0;
  const pid_t first = start_child();
  const pid_t second = start_child();
  const pid_t third = start_child();
  {
    KilledChildren children(kNoSignal);
    children.kill(first, {.user = 1, .file_system = 50});
    children.kill(second, {.user = 1, .file_system = 51});
    children.kill(third, {.user = 2, .file_system = 50});
    const auto of_user = [&](uint32_t user) {
      return children.alive_after(0, [user](const ChildsWork& work) { return work.user == user; });
    };
    EXPECT_EQ(children.alive_after(0), 3U);
    EXPECT_EQ(of_user(1), 2U);
    EXPECT_EQ(of_user(2), 1U);
    EXPECT_EQ(of_user(3), 0U);
    EXPECT_EQ(children.alive_after(kNsPerSecond * 1000), 0U) << "they may still die";
    ::kill(second, SIGKILL);
    for (int i = 0; i < 500 && of_user(1) == 2; ++i) {
      ::usleep(10'000);
    }
    EXPECT_EQ(of_user(1), 1U);
    EXPECT_EQ(children.alive_after(0), 2U);
  }
  for (const pid_t child : {first, third}) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
}

TEST(KilledChildren, AreKilledAndReaped) {
  KilledChildren children;
  children.kill(start_child());
  for (int i = 0; i < 500 && children.alive_after(0) > 0; ++i) {
    ::usleep(10'000);
  }
  EXPECT_EQ(children.alive_after(0), 0U);
}

}  // namespace
}  // namespace stalltrace
