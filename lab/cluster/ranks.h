// SPDX-License-Identifier: Apache-2.0
// The ranks of a run: processes of the workload in the virtual nodes, each started separately or all by one command
// (mpirun). The destructor kills those started here that still run; a command's ranks end with their node.
// Single-threaded.
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
  /// Starts one for each entry of `nodes`, which are by rank; stores its pid there as soon as it is known.
  Status start(const RunOptions& options, const std::string& job_id, std::span<VirtualNode> nodes);

  /// Reaps ranks that have ended, and removes their pids from the nodes.
  Status reap(std::span<VirtualNode> nodes);
  [[nodiscard]] bool all_ended() const;
  /// "rank 2 ended with signal 9 (Killed)", or the same for the command that started all; empty if none has failed.
  [[nodiscard]] std::string failure() const;
  /// Ends those still running.
  Status stop(std::span<VirtualNode> nodes);

  /// Steps that rank 0 has finished.
  int64_t steps_of_rank0() { return members_.empty() ? 0 : members_.front().counter.count(); }
  /// Adds descriptors to poll for the end of any rank.
  void add_poll_fds(std::vector<pollfd>& fds) const;
  std::vector<RankOutcome> outcomes();

 private:
  struct Member {
    Subprocess process;  // empty if a command starts the ranks
    StepCounter counter;
    RankOutcome outcome;
    std::string program;                  // if started by a command: the file to find it by
    std::optional<uint64_t> start_ticks;  // ... and its pid is still its own
  };
  Status start_each(const RunOptions& options, const WorkloadRow& workload, std::span<const RankContext> ranks);
  Status start_by_command(const RunOptions& options, const WorkloadRow& workload, std::span<const RankContext> ranks);
  /// If a command starts the ranks: finds new ones, notices ended ones.
  void look_for_ranks(std::span<VirtualNode> nodes);

  std::vector<Member> members_;
  Subprocess command_;  // starts all ranks; empty if each is started separately
  bool by_command_ = false;
};

}  // namespace stalltrace::lab
