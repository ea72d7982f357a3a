// SPDX-License-Identifier: Apache-2.0
#include "base/rights/capabilities.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/wait.h>
#include <unistd.h>

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

TEST(Capabilities, HaveNames) {
  EXPECT_EQ(capability_names(capability_bit(CAP_BPF) | capability_bit(CAP_PERFMON)), "CAP_PERFMON, CAP_BPF");
  EXPECT_EQ(capability_names(capability_bit(CAP_CHECKPOINT_RESTORE) | capability_bit(60)),
            "CAP_CHECKPOINT_RESTORE, capability 60");
  EXPECT_EQ(capability_names(capability_bit(CAP_CHOWN)), "CAP_CHOWN");
}

}  // namespace
}  // namespace stalltrace
