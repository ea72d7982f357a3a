// SPDX-License-Identifier: Apache-2.0
// A tracer on kernels before 6.6 needs hundreds of descriptors; the job that it starts gets the limit as it was. In a
// child process, since limits are raised once.
#include "base/process/resource_limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace stalltrace {
namespace {

uint64_t soft_limit() {
  rlimit now{};
  return ::getrlimit(RLIMIT_NOFILE, &now) == 0 ? now.rlim_cur : 0;
}

/// 0 if all is as it should be, else the step that is not.
int raise_and_restore() {
  constexpr uint64_t kLow = 64;
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit low{kLow, before.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &low) != 0 || before.rlim_max <= kLow) {
    return 1;
  }
  raise_limits();
  if (soft_limit() != before.rlim_max || descriptor_limit() != before.rlim_max) {
    return 2;
  }
  restore_limits();
  return soft_limit() == kLow && descriptor_limit() == kLow ? 0 : 3;
}

TEST(ResourceLimits, FilesAreRaisedToTheHardLimitAndRestoredForTheJob) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::_exit(raise_and_restore());
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: no lower limit can be set; 2: not raised; 3: not restored";
}

}  // namespace
}  // namespace stalltrace
