// SPDX-License-Identifier: Apache-2.0
// A child process's end as a descriptor for poll: a pidfd where available (Linux 5.3, and no seccomp profile refuses
// it), else an eventfd that a thread writes to.
#pragma once

#include <sys/types.h>

#include <memory>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace {

/// Does not reap the child. Without pidfds a thread waits for the child's end, even after this object is gone; all
/// signals are blocked in it, and it has no capabilities.
class EndWatch {
 public:
  /// Watches nothing: the descriptor is -1.
  EndWatch() = default;
  /// `child` belongs to this process and has not been reaped.
  static Result<EndWatch> start(pid_t child);

  /// Readable once the child has ended, and from then on.
  [[nodiscard]] int descriptor() const { return end_ ? end_->get() : -1; }
  void reset() { end_.reset(); }

 private:
  explicit EndWatch(std::shared_ptr<const UniqueFd> end) : end_(std::move(end)) {}

  std::shared_ptr<const UniqueFd> end_;  // shared with the thread, where there is one
};

}  // namespace stalltrace
