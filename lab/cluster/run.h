// SPDX-License-Identifier: Apache-2.0
// One practice run: a network of virtual nodes, an agent and ranks of a real workload in each, faults at known times,
// recordings and truth.json in one folder. Needs root, iproute2 and nftables. Everything outside that folder is undone
// when run() returns, whether it succeeded, failed or was interrupted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/process/subprocess.h"
#include "base/result.h"
#include "lab/cluster/agent_servers.h"
#include "lab/cluster/injection/fault_spec.h"

namespace stalltrace::lab {

struct RunOptions {
  int ranks = 4;           // of the job
  int ranks_per_node = 1;  // divides `ranks`
  std::string workload = "nccl";
  int steps = 200;
  std::vector<FaultSpec> faults;
  std::string out_dir;
  std::optional<int64_t> link_mbit;         // rate of every node's link; nullopt: unlimited
  uint64_t seed = 1;                        // draws the rank of `rank=random`; part of the job's id
  bool trace = true;                        // false: no agents, for a baseline
  bool plugin = false;                      // every rank loads the profiler plugin; profiler files go to OUT/profiler
  bool live = false;                        // the agents report findings while the job runs, into their recordings
  std::optional<AgentServers> servers;      // the agents serve what they record; nullopt: they don't
  std::string agent = "/proc/self/exe";     // started as `AGENT trace ...`
  int64_t agent_ready_ns = 20'000'000'000;  // time limit for an agent to become ready
  std::vector<std::string> workload_args;   // appended to the workload's own
  std::optional<int64_t> timeout_ns;        // of the workload; none: 60 s and 1 s per step
  /// How long the other ranks may run after one died: long enough for a visible hang.
  int64_t after_death_ns = 10'000'000'000;
  std::function<void(std::string_view)> progress;  // gets progress lines; may be empty
};

struct RankOutcome {
  int rank = 0;
  int pid = 0;
  int64_t steps = 0;                 // finished steps, by the workload's own log
  std::optional<ExitStatus> status;  // of the workload; nullopt: it never started
  bool ended_by_lab = false;         // it still ran at the time limit, or after another rank's death
};

struct RunOutcome {
  std::vector<std::string> recordings;  // OUT/node0.db, ... those that exist
  std::string truth_path;               // OUT/truth.json
  std::vector<RankOutcome> ranks;
  bool completed = false;             // every rank ended by itself with exit code 0
  std::string problem;                // the workload's failure, if not completed
  std::vector<std::string> warnings;  // other problems, such as an agent that ended early
};

/// Folder of the ranks' profiler files with `plugin`.
std::string profiler_folder(const RunOptions& options);

/// Single-threaded; call it from the main thread. It handles SIGINT, SIGTERM and SIGHUP of the calling thread, which
/// end the run in order (ErrorKind::kInterrupted, recordings and truth.json kept). A workload that fails or hangs is a
/// result, not an error: its recordings are kept for analysis.
Result<RunOutcome> run(const RunOptions& options);

}  // namespace stalltrace::lab
