// SPDX-License-Identifier: Apache-2.0
// The end of a child process as a descriptor for poll. A pidfd where there are
// any (Linux 5.3, and no seccomp profile refuses them), else an eventfd that a
// thread writes to: poll needs no difference.
#pragma once

#include <sys/types.h>

#include <memory>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace {

/// Does not reap the child. Without pidfds a thread waits for the child's end,
/// also when this object is gone before; it has all signals blocked.
class EndWatch {
 public:
  /// Watches nothing: the descriptor is -1.
  EndWatch() = default;
  /// `child` is one of this process, and nobody has reaped it yet.
  static Result<EndWatch> start(pid_t child);

  /// Readable once the child has ended, and from then on.
  [[nodiscard]] int descriptor() const { return end_ ? end_->get() : -1; }
  void reset() { end_.reset(); }

 private:
  explicit EndWatch(std::shared_ptr<const UniqueFd> end) : end_(std::move(end)) {}

  std::shared_ptr<const UniqueFd> end_;  // the thread, where there is one, shares it
};

}  // namespace stalltrace
