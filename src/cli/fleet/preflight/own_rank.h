// SPDX-License-Identifier: Apache-2.0
// Rank 0's own rank: a child of the process that coordinates. A failure of it comes back through a pipe of its own, so
// that what the coordinator writes has one writer: the child's bytes can't get into the middle of a long report.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace::cli {

/// One thread, which is the one that started it: the kernel ends the child with that.
class OwnRank {
 public:
  /// Forks: to be called before the first other thread is started. `take_part` is run in the child; its value (whether
  /// a check failed) is of no interest here.
  static Result<OwnRank> start(const std::function<Result<bool>()>& take_part);

  /// Why it failed, once that is known; given once. Does not wait.
  std::optional<Error> failure();
  /// Waits until it has ended. Why it failed, unless failure() gave that before.
  std::optional<Error> wait();

 private:
  OwnRank(pid_t child, UniqueFd failure) : child_(child), failure_(std::move(failure)) {}

  pid_t child_;
  UniqueFd failure_;  // of the pipe; empty once read
};

}  // namespace stalltrace::cli
