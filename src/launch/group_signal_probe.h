// SPDX-License-Identifier: Apache-2.0
// Distinguishes a signal that was sent only to this process from one that was sent to its whole process group (a
// terminal's Ctrl-C, a shell's `kill %1`, a batch system), which no field of a signal shows. The probe is an idle
// process in the same group and cgroup with all signals blocked: a signal that it received as well was sent to the
// group.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "base/handle.h"

namespace stalltrace::launch {

/// Ends with this object, and with the thread that created it, in every case. If it can't be created or is gone, every
/// signal counts as sent only to this process. Used by one thread at a time.
class GroupSignalProbe {
 public:
  /// Forks: must be called while there is only one thread.
  GroupSignalProbe();
  ~GroupSignalProbe();
  GroupSignalProbe(const GroupSignalProbe&) = delete;
  GroupSignalProbe& operator=(const GroupSignalProbe&) = delete;

  /// True if the probe has received `signal_number` since the last call. A sender that signals many processes one by
  /// one may not have reached it yet: waits for that, at most `patience`.
  bool got(int signal_number, std::chrono::milliseconds patience);

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  [[nodiscard]] bool is_pending(int signal_number) const;
  void forget(int signal_number);

  pid_t pid_ = -1;
  UniqueFd channel_;  // request: a byte, forget this signal; answer: a byte
};

}  // namespace stalltrace::launch
