// SPDX-License-Identifier: Apache-2.0
// The ranks of a run: one process of the workload in each virtual node. Those still running when this object goes
// are killed. Single-threaded.
#pragma once

#include <poll.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/subprocess.h"
#include "lab/cluster/node.h"
#include "lab/cluster/run.h"
#include "lab/cluster/workload.h"

namespace stalltrace::lab {

class Ranks {
 public:
  /// Starts one per node and notes its pid there.
  Status start(const RunOptions& options, const std::string& job_id, std::span<VirtualNode> nodes);

  /// Reaps those that have ended; their pids go from the nodes.
  Status reap(std::span<VirtualNode> nodes);
  [[nodiscard]] bool all_ended() const;
  /// "rank 2 ended with signal 9 (Killed)"; empty while none has failed.
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
    Subprocess process;
    StepCounter counter;
    RankOutcome outcome;
  };
  std::vector<Member> members_;
};

}  // namespace stalltrace::lab
