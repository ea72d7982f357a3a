// SPDX-License-Identifier: Apache-2.0
// tests/cli/old_kernel_test.py also runs these tests without pidfds.
#include "base/process/end_watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace stalltrace {
namespace {

constexpr int kSoonMs = 100;
constexpr int kAtLastMs = 10'000;

pid_t start_child() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::pause();
    ::_exit(0);
  }
  return pid;
}

bool readable(const EndWatch& watch, int limit_ms) {
  pollfd wait{.fd = watch.descriptor(), .events = POLLIN, .revents = 0};
  return ::poll(&wait, 1, limit_ms) == 1 && (wait.revents & POLLIN) != 0;
}

TEST(EndWatch, IsReadableFromTheEndOn) {
  const pid_t child = start_child();
  const auto watch = EndWatch::start(child);
  ASSERT_TRUE(watch) << watch.error().what;
  EXPECT_FALSE(readable(*watch, kSoonMs));
  ::kill(child, SIGSTOP);
  ::kill(child, SIGCONT);
  EXPECT_FALSE(readable(*watch, kSoonMs)) << "a stop is no end";
  ::kill(child, SIGKILL);
  EXPECT_TRUE(readable(*watch, kAtLastMs));
  EXPECT_TRUE(readable(*watch, 0));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child) << "it is its owner's to reap";
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_TRUE(readable(*watch, 0));
}

TEST(EndWatch, OfOneThatHasEndedBefore) {
  const pid_t child = start_child();
  ::kill(child, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  const auto watch = EndWatch::start(child);
  ASSERT_TRUE(watch) << watch.error().what;
  EXPECT_TRUE(readable(*watch, kAtLastMs));
  ::waitpid(child, nullptr, 0);
}

TEST(EndWatch, MayGoBeforeTheChild) {
  const pid_t child = start_child();
  auto watch = EndWatch::start(child);
  ASSERT_TRUE(watch) << watch.error().what;
  EndWatch moved = std::move(*watch);
  EXPECT_GE(moved.descriptor(), 0);
  moved.reset();
  EXPECT_EQ(moved.descriptor(), -1);
  ::kill(child, SIGKILL);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace stalltrace
