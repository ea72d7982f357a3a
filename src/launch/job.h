// SPDX-License-Identifier: Apache-2.0
// The user's command, started by `run` and `trace -- COMMAND` as if they were not there. It receives its own signals
// (job_signals.h), ignores the signals that we were started to ignore, inherits the descriptors that were passed to us
// for it, and we never kill it, even if we fail.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/process/subprocess.h"
#include "base/result.h"
#include "launch/job_signals.h"

namespace stalltrace::launch {

class Job {
 public:
  /// Must be created first: records the inherited state, and holds the signals from then on. `not_for_it` is a
  /// descriptor that was passed only to us; -1: none.
  explicit Job(int not_for_it = -1);
  /// A command that still runs continues.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Checks that the program exists, without starting it.
  static Status check(const std::vector<std::string>& argv);
  /// `environment` is added to ours. An error if a signal has requested the end before the start: then nothing was
  /// started.
  Status start(const std::vector<std::string>& argv, const std::vector<std::string>& environment);
  /// Whether a signal has requested the end before the start.
  bool interrupted();
  /// Readable (poll) when interrupted() may have changed.
  [[nodiscard]] int early_descriptor() const { return signals_.early_descriptor(); }
  /// Readable (poll) once it has ended.
  [[nodiscard]] int descriptor() const { return command_.end_descriptor(); }
  [[nodiscard]] bool asked_to_end() const { return signals_.asked_to_end(); }
  /// Waits for its end without a limit; returns the exit code in the shell's form. The command receives all signals
  /// until then; from then on they are held until release().
  Result<int> wait();
  /// Call when all data is saved: a signal may end us again.
  void release() { signals_.release(); }

 private:
  std::vector<int> handed_;
  std::optional<int> early_;  // the signal that came before the start
  JobSignals signals_;
  Subprocess command_;
};

}  // namespace stalltrace::launch
