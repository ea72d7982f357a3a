// SPDX-License-Identifier: Apache-2.0
// Distinguishes a signal that was sent to this process from one that was sent to its whole process group (a terminal's
// Ctrl-C, a shell's `kill %1`, a batch system): which of the two it was, no field of a signal says. The witness is a
// process that does nothing, in the same group and cgroup, with all signals blocked: what it has got too was meant for
// all.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "base/handle.h"

namespace stalltrace::launch {

/// Goes with this object, and with the thread that made it, however that ends. Where it can't be made or is gone,
/// nothing is known to be for all. One thread at a time.
class GroupSignalProbe {
 public:
  /// Forks: for a time when there is one thread.
  GroupSignalProbe();
  ~GroupSignalProbe();
  GroupSignalProbe(const GroupSignalProbe&) = delete;
  GroupSignalProbe& operator=(const GroupSignalProbe&) = delete;

  /// Whether the witness has got `signal_number` since this was last asked. Who signals many processes one by one may
  /// not have come to it yet: waits for that, `patience` at most.
  bool got(int signal_number, std::chrono::milliseconds patience);

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  [[nodiscard]] bool is_pending(int signal_number) const;
  void forget(int signal_number);

  pid_t pid_ = -1;
  UniqueFd channel_;  // a byte there: forget this signal; a byte back: forgotten
};

}  // namespace stalltrace::launch
