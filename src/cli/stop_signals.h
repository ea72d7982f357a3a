// SPDX-License-Identifier: Apache-2.0
// The signals that stop a subcommand which runs no command of the user, as a descriptor.
#pragma once

#include <csignal>

#include "base/handle.h"

namespace stalltrace::cli {

/// Provides Ctrl-C, SIGTERM and a closed terminal as a descriptor, so that they end the work instead of the program.
/// Restores the mask.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  [[nodiscard]] int descriptor() const { return fd_.get(); }

 private:
  sigset_t before_{};
  UniqueFd fd_;
};

}  // namespace stalltrace::cli
