// SPDX-License-Identifier: Apache-2.0
// The user's own command, started by `run` and by `trace -- COMMAND` as if they were not there: its signals are its own
// (job_signals.h), it ignores what we were started to ignore, has the descriptors we were handed for it, and is never
// killed by us, whatever becomes of us.
#pragma once

#include <string>
#include <vector>

#include "base/process/subprocess.h"
#include "base/result.h"
#include "launch/job_signals.h"

namespace stalltrace::launch {

class Job {
 public:
  /// Before anything else: takes note of what we were handed, and holds the signals from here on. `not_for_it` is a
  /// descriptor that was handed to us alone; -1: none.
  explicit Job(int not_for_it = -1);
  /// A command that still runs goes on.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Without starting it: whether there is such a program.
  static Status check(const std::vector<std::string>& argv);
  /// `environment` joins ours. An error when a signal asked for an end in the meantime: then nothing was started.
  Status start(const std::vector<std::string>& argv, const std::vector<std::string>& environment);
  /// Readable (poll) once it has ended.
  [[nodiscard]] int descriptor() const { return command_.end_descriptor(); }
  [[nodiscard]] bool asked_to_end() const { return signals_.asked_to_end(); }
  /// Waits for its end, however long; the exit code as a shell has it. It had all signals until then; from then on
  /// they are held until release().
  Result<int> wait();
  /// What had to be saved is saved: a signal may end us again.
  void release() { signals_.release(); }

 private:
  std::vector<int> handed_;
  JobSignals signals_;
  Subprocess command_;
};

}  // namespace stalltrace::launch
