// SPDX-License-Identifier: Apache-2.0
// Child processes that were killed and have not been reaped yet. One that hangs in the kernel dies only when the kernel
// releases it: nothing waits for it, but it is counted. One thread.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace stalltrace {

/// What a child was doing when it was killed: where shares of users count.
struct ChildsWork {
  uint32_t user = 0;         // for whom
  uint64_t file_system = 0;  // where: a number of the caller's
};

class KilledChildren {
 public:
  /// `signal`: tests give one that children survive.
  explicit KilledChildren(int signal = SIGKILL) : signal_(signal) {}
  KilledChildren(const KilledChildren&) = delete;
  KilledChildren& operator=(const KilledChildren&) = delete;
  /// Gives them some 20 ms to die.
  ~KilledChildren();

  void kill(pid_t child, const ChildsWork& work = {});
  void reap();
  /// How many outlive SIGKILL by at least this time; `which`: of those with such work. Reaps.
  [[nodiscard]] size_t alive_after(int64_t ns, const std::function<bool(const ChildsWork&)>& which = {});

 private:
  struct Killed {
    pid_t pid = 0;
    int64_t at_ns = 0;  // CLOCK_MONOTONIC
    ChildsWork work;
  };
  int signal_;
  std::vector<Killed> killed_;
};

}  // namespace stalltrace
