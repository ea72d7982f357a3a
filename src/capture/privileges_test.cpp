// SPDX-License-Identifier: Apache-2.0
// What a trace keeps is enough for its helper processes.
#include "capture/privileges.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/untrusted/sandbox.h"

namespace stalltrace::capture {
namespace {

bool a_helper_can_become_nobody(const PrivilegeNeeds& needs) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(keep_capabilities(privileges_of_a_trace(needs)) && become_nobody(parent) && ::getuid() == 65534 ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  return status == 0;
}

TEST(PrivilegesOfATrace, HelpersBecomeTheUserNobodyOnlyWhereTheKernelHasNoFilters) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root";
  }
  EXPECT_TRUE(a_helper_can_become_nobody({.system_call_filters = false}));
  EXPECT_FALSE(a_helper_can_become_nobody({.system_call_filters = true}));
}

TEST(PrivilegesOfATrace, EachIsKeptForOneReasonWhichIsShown) {
  for (const bool newest : {true, false}) {
    const PrivilegeNeeds needs{.uprobe_multi = newest, .system_call_filters = newest};
    Capabilities all = 0;
    const std::string text = kept_privileges_text(~Capabilities{0}, needs);
    for (const KeptPrivilege& one : kept_privileges(needs)) {
      EXPECT_EQ(all & one.set, 0U) << one.why;
      EXPECT_FALSE(one.why.empty()) << capability_names(one.set);
      EXPECT_NE(text.find(capability_names(one.set) + " (" + std::string(one.why) + ")"), std::string::npos) << text;
      all |= one.set;
    }
    EXPECT_EQ(all, privileges_of_a_trace(needs));
    EXPECT_EQ((all & capability_bit(CAP_SYS_ADMIN)) == 0, newest);
  }
  EXPECT_EQ(kept_privileges_text(capability_bit(CAP_NET_ADMIN), {}), "") << "it is given up";
  EXPECT_TRUE(kept_privileges_text(capability_bit(CAP_BPF), {}).starts_with("CAP_BPF ("));
}

}  // namespace
}  // namespace stalltrace::capture
