// SPDX-License-Identifier: Apache-2.0
// One practice run: a network of virtual nodes, an agent and a rank of a real workload in each, faults at known
// times, recordings and the truth about them in one folder. Needs root, iproute2 and nftables. Everything it makes
// outside that folder is undone when run() returns, whether it succeeded, failed or was interrupted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/process/subprocess.h"
#include "base/result.h"
#include "lab/cluster/injection/fault_spec.h"

namespace stalltrace::lab {

struct RunOptions {
  int ranks = 4;
  std::string workload = "nccl";
  int steps = 200;
  std::vector<FaultSpec> faults;
  std::string out_dir;
  std::optional<int64_t> link_mbit;         // rate of every node's link; none: as fast as the machine
  uint64_t seed = 1;                        // draws the rank of `rank=random`; part of the job's id
  bool trace = true;                        // false: no agents, for a baseline
  bool plugin = false;                      // every rank loads the profiler plugin; profiler files go to OUT/profiler
  bool live = false;                        // the agents report findings while the job runs, into their recordings
  std::string agent = "/proc/self/exe";     // started as `AGENT trace ...`
  int64_t agent_ready_ns = 20'000'000'000;  // how long an agent may take to be ready
  std::vector<std::string> workload_args;   // appended to the workload's own
  std::optional<int64_t> timeout_ns;        // of the workload; none: 60 s and 1 s per step
  /// How long the other ranks may go on after one died: long enough to see them hang.
  int64_t after_death_ns = 10'000'000'000;
  std::function<void(std::string_view)> progress;  // a line of what is going on; may be empty
};

struct RankOutcome {
  int rank = 0;
  int pid = 0;
  int64_t steps = 0;                 // finished, by the workload's own log
  std::optional<ExitStatus> status;  // of the workload; none: it never started
  bool ended_by_lab = false;         // still running at the time limit, or after another rank's death
};

struct RunOutcome {
  std::vector<std::string> recordings;  // OUT/node0.db, ... those that exist
  std::string truth_path;               // OUT/truth.json
  std::vector<RankOutcome> ranks;
  bool completed = false;             // every rank ended by itself with exit code 0
  std::string problem;                // what went wrong with the workload, if not completed
  std::vector<std::string> warnings;  // what did not, but a reader should know: an agent that ended early, ...
};

/// Where the ranks' profiler files go with `plugin`.
std::string ring_folder(const RunOptions& options);

/// Single-threaded; call it from the main thread. In the meantime SIGINT, SIGTERM and SIGHUP of the calling thread are
/// handled here: they end the run in order (ErrorKind::kInterrupted, recordings and truth.json kept).
/// A workload that fails or hangs is an outcome, not an error: its recordings are what one wants to look at.
Result<RunOutcome> run(const RunOptions& options);

}  // namespace stalltrace::lab
