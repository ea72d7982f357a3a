// SPDX-License-Identifier: Apache-2.0
// The traced processes of this node and their ranks. Single-threaded.
#pragma once

#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>

#include "model/events.h"

namespace stalltrace {

class ProcessRegistry {
 public:
  /// `sink` must outlive the registry; it receives every process, and again when more is known.
  explicit ProcessRegistry(EventSink& sink) : sink_(sink) {}

  void add(Process process);
  [[nodiscard]] const Process* find(int32_t pid) const;
  [[nodiscard]] std::optional<int32_t> rank_of(int32_t pid) const;
  /// Number of processes so far.
  [[nodiscard]] size_t size() const { return added_; }

  /// The communicator's rank is used as the job's if the launcher gave none; among several communicators, the largest
  /// one's.
  void learn_rank(int32_t pid, int32_t rank, int32_t nranks, RankSource source = RankSource::kInit);
  /// The kernel killed it because memory ran out.
  void oom_killed(int32_t pid);
  /// exit_code as in task_struct: signal in the low 7 bits, status in the second byte. The process is kept for a
  /// minute, since its sockets outlive it.
  void exited(int32_t pid, int64_t exit_ns, std::optional<int32_t> exit_code);

 private:
  EventSink& sink_;
  std::unordered_map<int32_t, Process> processes_;
  std::deque<std::pair<int64_t, int32_t>> exited_;  // time, pid
  size_t added_ = 0;
};

}  // namespace stalltrace
