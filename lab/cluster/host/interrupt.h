// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and similar signals as a state to poll, so that everything can be undone in order. While this object lives,
// SIGINT, SIGTERM and SIGHUP to the calling thread are held here instead of ending the process.
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
  /// Discards the held signals: they have been handled.
  ~InterruptGuard();

  /// An error of kind kInterrupted once a signal came, then for good.
  Status check();
  /// Readable (poll) when check() has a new signal.
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  sigset_t before_{};
  UniqueFd fd_;
  std::optional<int> signal_;
};

}  // namespace stalltrace::lab
