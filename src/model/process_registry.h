// SPDX-License-Identifier: Apache-2.0
// The traced processes of this node and what is known of their ranks. One thread.
#pragma once

#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>

#include "model/events.h"

namespace stalltrace {

class ProcessRegistry {
 public:
  /// `sink` outlives the registry and is notified of every process, and again when more is known.
  explicit ProcessRegistry(EventSink& sink) : sink_(sink) {}

  void add(Process process);
  [[nodiscard]] const Process* find(int32_t pid) const;
  [[nodiscard]] std::optional<int32_t> rank_of(int32_t pid) const;
  /// How many there were so far.
  [[nodiscard]] size_t size() const { return added_; }

  /// A communicator's rank stands in for the job's where the launcher gave none; of several, the largest's.
  void learn_rank(int32_t pid, int32_t rank, int32_t nranks, RankSource source = RankSource::kInit);
  /// The kernel chose it to be killed for want of memory.
  void oom_killed(int32_t pid);
  /// exit_code as in task_struct: signal in the low 7 bits, status in the second byte. The process stays known
  /// for a minute, since its sockets outlive it.
  void exited(int32_t pid, int64_t exit_ns, int32_t exit_code);

 private:
  EventSink& sink_;
  std::unordered_map<int32_t, Process> processes_;
  std::deque<std::pair<int64_t, int32_t>> exited_;  // time, pid
  size_t added_ = 0;
};

}  // namespace stalltrace
