// SPDX-License-Identifier: Apache-2.0
// What a trace keeps is enough for its helper processes.
#include "capture/privileges.h"

#include <gtest/gtest.h>
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

}  // namespace
}  // namespace stalltrace::capture
