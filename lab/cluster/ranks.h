// SPDX-License-Identifier: Apache-2.0
// The ranks of a run: one process of the workload in each virtual node, started each by itself or all by one command
// (mpirun). Those started here and still running when this object goes are killed; what a command started goes with
// its node. Single-threaded.
#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/process/subprocess.h"
#include "base/result.h"
#include "lab/cluster/host/node.h"
#include "lab/cluster/run.h"
#include "lab/cluster/workload.h"

namespace stalltrace::lab {

class Ranks {
 public:
  /// Starts one per node; its pid is noted there, as soon as it is known.
  Status start(const RunOptions& options, const std::string& job_id, std::span<VirtualNode> nodes);

  /// Reaps those that have ended; their pids go from the nodes.
  Status reap(std::span<VirtualNode> nodes);
  [[nodiscard]] bool all_ended() const;
  /// "rank 2 ended with signal 9 (Killed)", or the same of the command that started all; empty while none has failed.
  [[nodiscard]] std::string failure() const;
  /// Ends those still running.
  Status stop(std::span<VirtualNode> nodes);

  /// Steps that rank 0 has finished.
  int64_t steps_of_rank0() { return members_.empty() ? 0 : members_.front().counter.count(); }
  /// What to poll for the end of any of them.
  void add_poll_fds(std::vector<pollfd>& fds) const;
  std::vector<RankOutcome> outcomes();

 private:
  struct Member {
    Subprocess process;  // none where a command starts the ranks
    StepCounter counter;
    RankOutcome outcome;
    std::string program;                  // started by a command: by its file is it found
    std::optional<uint64_t> start_ticks;  // ... and its pid is still its own
  };
  Status start_each(const RunOptions& options, const WorkloadRow& workload, std::span<const RankContext> ranks);
  Status start_by_command(const RunOptions& options, const WorkloadRow& workload, std::span<const RankContext> ranks);
  /// Where a command starts the ranks: finds those that have come, notices those that are gone.
  void look_for_ranks(std::span<VirtualNode> nodes);

  std::vector<Member> members_;
  Subprocess command_;  // that starts all ranks; none where each is started by itself
  bool by_command_ = false;
};

}  // namespace stalltrace::lab
