// SPDX-License-Identifier: Apache-2.0
// Passes the signals that we receive to the user's command. Signals from shells, batch systems and users reach the
// command at once; signals that reached it directly are not sent twice; signals that we were started to ignore (nohup,
// a script's background) are ignored by the command as well unless it changes that. From the constructor on the signals
// are held, so that they interrupt no work.
#pragma once

#include <sys/signalfd.h>

#include <atomic>
#include <csignal>
#include <optional>
#include <thread>

#include "base/handle.h"
#include "base/process/subprocess.h"
#include "launch/group_signal_probe.h"

namespace stalltrace::launch {

class JobSignals {
 public:
  /// Forks (GroupSignalProbe): must be called while there is only one thread. SIGCHLD is no longer ignored, so that
  /// ends of children are reported.
  JobSignals();
  /// Restores the previous effect of signals on this process.
  ~JobSignals();
  JobSignals(const JobSignals&) = delete;
  JobSignals& operator=(const JobSignals&) = delete;

  /// The signal state at our start, which the command begins with.
  [[nodiscard]] const SignalState& at_start() const { return at_start_; }
  /// A signal that came before the command was started. Call it before pass_to().
  std::optional<int> take_early();
  /// Readable (poll) when there may be one.
  [[nodiscard]] int early_descriptor() const { return signals_.get(); }
  /// What keeps signals from being passed on: no descriptor, or no thread, was left. The command must not be started
  /// then.
  [[nodiscard]] const Status& ready() const { return ready_; }
  /// Passes signals on from here on, on its own thread. `command` has just been started and must not be reaped before
  /// stop_passing(): until then no other process has its number.
  void pass_to(const Subprocess& command);
  /// The signals are held again.
  void stop_passing();
  /// True if a signal that requests the end was received.
  [[nodiscard]] bool asked_to_end() const { return asked_to_end_; }
  /// Call when the command has ended. Signals that request the end act on this process again, others have no effect.
  void release();

 private:
  [[nodiscard]] bool ignored_at_start(int number) const;
  void wake();
  void pass_on(const std::stop_token& stop);
  void pass(const signalfd_siginfo& info);

  SignalState at_start_;
  struct sigaction child_at_start_ {};
  UniqueFd signals_;
  UniqueFd wake_;  // the command was started, or the thread must end
  Status ready_;
  GroupSignalProbe witness_;
  pid_t command_pid_ = -1;
  std::atomic<bool> asked_to_end_ = false;
  std::jthread thread_;
};

}  // namespace stalltrace::launch
