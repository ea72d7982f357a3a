// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and its like as something one can ask for, so that everything can be undone in order. While this object
// lives, SIGINT, SIGTERM and SIGHUP to the calling thread wait here instead of ending the process.
#pragma once

#include <csignal>
#include <optional>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace::lab {

class InterruptGuard {
 public:
  InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  /// Signals that came in the meantime are dropped: they have been obeyed.
  ~InterruptGuard();

  /// An error of kind kInterrupted once a signal came, then for good.
  Status check();
  /// Readable (poll) when check() has something new to say.
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  sigset_t before_{};
  UniqueFd fd_;
  std::optional<int> signal_;
};

}  // namespace stalltrace::lab
