// SPDX-License-Identifier: Apache-2.0
// What verbs share that start the user's own command: signals as a descriptor, and waiting for the command's end.
#pragma once

#include <csignal>

#include "base/handle.h"
#include "base/result.h"
#include "base/subprocess.h"

namespace stalltrace::cli {

/// Ctrl-C, SIGTERM and a closed terminal as a descriptor, so that they end the work instead of the program. Restores
/// the mask.
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

/// The command's exit code as a shell has it. It is awaited for as long as it runs; once we are asked to stop, it has
/// ten seconds (a terminal's Ctrl-C has reached it already) and is then stopped too.
Result<int> command_exit(Subprocess& command, const StopSignals& signals);

}  // namespace stalltrace::cli
