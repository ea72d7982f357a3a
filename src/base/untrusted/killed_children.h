// SPDX-License-Identifier: Apache-2.0
// Child processes that were killed and have not been reaped yet. One that hangs in the kernel dies only when the kernel
// releases it: nothing waits for it, but it is counted. One thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stalltrace {

class KilledChildren {
 public:
  KilledChildren() = default;
  KilledChildren(const KilledChildren&) = delete;
  KilledChildren& operator=(const KilledChildren&) = delete;
  /// Gives them some 20 ms to die.
  ~KilledChildren();

  void kill(pid_t child);
  void reap();
  /// How many outlive SIGKILL by at least this time. Reaps.
  [[nodiscard]] size_t alive_after(int64_t ns);

 private:
  struct Killed {
    pid_t pid = 0;
    int64_t at_ns = 0;  // CLOCK_MONOTONIC
  };
  std::vector<Killed> killed_;
};

}  // namespace stalltrace
