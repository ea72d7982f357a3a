// SPDX-License-Identifier: Apache-2.0
#include "base/process/descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace stalltrace {
namespace {

/// Runs in a child, which has its own descriptors. Skips the C++ library's destructors.
bool holds_in_child(const std::function<bool()>& claim) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::_exit(claim() ? 0 : 1);
  }
  int status = -1;
  return ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int flags_of(int fd) { return ::fcntl(fd, F_GETFD); }

/// More than one read of /proc/self/fd returns.
bool open_many(int count) {
  for (int i = 0; i < count; ++i) {
    if (::dup2(STDERR_FILENO, 100 + 3 * i) < 0) {
      return false;
    }
  }
  return true;
}

TEST(Descriptors, FromAGivenOneOnAreClosedByTheNextExec) {
  EXPECT_TRUE(holds_in_child([] {
    if (!open_many(250)) {
      return false;
    }
    close_from_on_exec(103);
    bool all = flags_of(100) == 0 && flags_of(STDERR_FILENO) == 0;
    for (int i = 1; i < 250; ++i) {
      all = all && flags_of(100 + 3 * i) == FD_CLOEXEC;
    }
    return all;
  }));
}

TEST(Descriptors, AllButOneAreClosed) {
  for (const int kept : {0, 5, 400}) {
    EXPECT_TRUE(holds_in_child([kept] {
      if (!open_many(250) || (kept != 0 && ::dup2(STDERR_FILENO, kept) < 0)) {
        return false;
      }
      close_all_but(kept);
      for (int fd = 0; fd < 1000; ++fd) {
        if ((flags_of(fd) >= 0) != (fd == kept)) {
          return false;
        }
      }
      return true;
    })) << kept;
  }
}

TEST(Descriptors, AlsoThoseAboveALimitThatWasLoweredSince) {
  EXPECT_TRUE(holds_in_child([] {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 3;  // prevents opening /proc/self/fd too
    const bool prepared = ::dup2(STDERR_FILENO, 700) == 700 && ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
    close_from_on_exec(3);
    return prepared && flags_of(700) == FD_CLOEXEC;
  }));
}

}  // namespace
}  // namespace stalltrace
