// SPDX-License-Identifier: Apache-2.0
#include "base/rights/capabilities.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stop_token>
#include <thread>

namespace stalltrace {
namespace {

TEST(Capabilities, AllButTheKeptOnesAreGoneForGood) {
  const Capabilities kept = held_capabilities() & (capability_bit(CAP_KILL) | capability_bit(CAP_SYS_PTRACE));
  const pid_t child = ::fork();
  if (child == 0) {
    const bool done = keep_capabilities(capability_bit(CAP_KILL) | capability_bit(CAP_SYS_PTRACE));
    const bool left = held_capabilities() == kept;
    const bool regained = keep_capabilities(~Capabilities{0}) && held_capabilities() != kept;
    ::_exit(done && left && !regained ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

/// The kernel changes those of one thread only.
TEST(Capabilities, AThreadThatWasStartedBeforeKeepsIts) {
  const size_t keeps = held_capabilities() != 0 ? 1 : 0;
  const pid_t child = ::fork();
  if (child == 0) {
    std::jthread before([](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        ::usleep(1000);
      }
    });
    const bool done = keep_capabilities(0);
    const bool seen = threads_with_more_than(0) == keeps && threads_with_more_than(~Capabilities{0}) == 0;
    before.request_stop();
    before.join();
    std::jthread after([](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        ::usleep(1000);
      }
    });
    const bool none = threads_with_more_than(0) == 0;
    ::_exit(done && seen && none ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Capabilities, HaveNames) {
  EXPECT_EQ(capability_names(capability_bit(CAP_BPF) | capability_bit(CAP_PERFMON)), "CAP_PERFMON, CAP_BPF");
  EXPECT_EQ(capability_names(capability_bit(CAP_CHECKPOINT_RESTORE) | capability_bit(60)),
            "CAP_CHECKPOINT_RESTORE, capability 60");
  EXPECT_EQ(capability_names(capability_bit(CAP_CHOWN)), "CAP_CHOWN");
}

}  // namespace
}  // namespace stalltrace
