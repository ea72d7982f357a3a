// SPDX-License-Identifier: Apache-2.0
// Decides from all profiler files which processes died, and when. A process that vanished with an open communicator has
// died at its last sign of life if another one outlived it:
// - another process is alive, or its last sign of life is more than 1 s later; or
// - another process ended one of those communicators normally after that last sign of life: NCCL reports a death to the
//   other ranks within milliseconds, and they abort.
// Where all became silent at the same time, the order of their deaths is unknown, and none is reported. Pure; one
// thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace stalltrace::blackbox {

/// Signs of life closer together than this have no order, since heartbeats are periodic.
inline constexpr int64_t kOutlivedNs = 1'000'000'000;

/// Signs of life of one process. Times are UTC, ns.
struct ProcessActivity {
  bool alive = false;
  int64_t last_active_ns = 0;
  bool has_open_communicator = false;
  std::vector<uint64_t> open;                       // NCCL's hashes of open communicators
  std::vector<std::pair<uint64_t, int64_t>> ended;  // those that ended normally, and when

  /// By another clock offset.
  void move_by(int64_t offset_ns);
};

class Liveness {
 public:
  /// Adds a process; returns its index, from 0.
  size_t add(ProcessActivity process);
  /// When the process died; nullopt while it lives, if it ended normally, or if no other one outlived it. Takes time
  /// linear in its open communicators.
  [[nodiscard]] std::optional<int64_t> death_ns(size_t process) const;

 private:
  /// The two newest times of different processes, one of which is not the process in question.
  class NewestTwo {
   public:
    void add(size_t process, int64_t time_ns);
    [[nodiscard]] std::optional<int64_t> of_others(size_t process) const;

   private:
    std::array<std::optional<std::pair<int64_t, size_t>>, 2> newest_;
  };

  std::vector<ProcessActivity> processes_;
  bool any_alive_ = false;
  NewestTwo last_active_;
  std::unordered_map<uint64_t, NewestTwo> ended_;  // by communicator
};

}  // namespace stalltrace::blackbox
