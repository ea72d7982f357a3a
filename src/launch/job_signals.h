// SPDX-License-Identifier: Apache-2.0
// Signals of a program that stands where the user's own command would stand: they are the command's. What shells, batch
// systems and people send to us reaches it at once; what reached it anyway is not sent twice; what we were started to
// ignore (nohup, a script's background) it ignores unless it wants it. From the constructor on, the signals are held,
// so that they end no work half done.
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
  /// Forks (GroupSignalProbe): for a time when there is one thread. SIGCHLD is no longer ignored, so that we hear of
  /// ends.
  JobSignals();
  /// Signals act on this process as they did before.
  ~JobSignals();
  JobSignals(const JobSignals&) = delete;
  JobSignals& operator=(const JobSignals&) = delete;

  /// As we were started, for the command to begin with.
  [[nodiscard]] const SignalState& at_start() const { return at_start_; }
  /// One that came before there was a command to have it. Before pass_to().
  std::optional<int> take_early();
  /// From here on, on a thread of its own. `command` has just been started, and is not reaped before stop_passing():
  /// until then no other process has its number.
  void pass_to(const Subprocess& command);
  /// They are held again.
  void stop_passing();
  /// One came that asks for an end.
  [[nodiscard]] bool asked_to_end() const { return asked_to_end_; }
  /// The command has ended. Those that ask for an end act on this process again, others on nobody.
  void release();

 private:
  [[nodiscard]] bool ignored_at_start(int number) const;
  void wake();
  void pass_on(const std::stop_token& stop);
  void pass(const signalfd_siginfo& info);

  SignalState at_start_;
  struct sigaction child_at_start_ {};
  UniqueFd signals_;
  UniqueFd wake_;  // there is a command now, or the thread is to end
  GroupSignalProbe witness_;
  pid_t command_pid_ = -1;
  std::atomic<bool> asked_to_end_ = false;
  std::jthread thread_;
};

}  // namespace stalltrace::launch
