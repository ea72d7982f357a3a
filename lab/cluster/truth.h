// SPDX-License-Identifier: Apache-2.0
// truth.json: the true events of a run, with which tests and users compare findings. Schema 1, docs/lab.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/cluster/host/node.h"
#include "lab/cluster/injection/fault_table.h"
#include "lab/cluster/run.h"
#include "model/time_range.h"

namespace stalltrace::lab {

/// One fault as it was injected.
struct FaultTruth {
  FaultSpec spec;
  int rank = 0;
  std::string node;  // whose interface it acts on; empty: it acts on the rank alone
  std::optional<FaultLink> link;
  std::vector<TimeRange> intervals;  // when it was in effect: one, or one per pulse
  std::optional<uint64_t> packets_dropped;
  std::vector<std::string> commands;
  std::vector<std::pair<std::string, std::string>> details;
};

/// By how much the UTC of a node's recording is wrong: at a time, and with each second after it.
struct ClockTruth {
  int64_t at_ns = 0;
  int64_t error_ns = 0;
  double drift_ppm = 0;
};

struct NodeTruth {
  VirtualNode node;
  RankOutcome rank;
  int agent_pid = 0;                  // 0: none
  std::optional<ClockTruth> clock{};  // only of a simulation: it is not known of a real one
};

struct Truth {
  static constexpr int kSchema = 1;
  RunOptions options;
  std::string job_id;
  std::string master;  // address:port
  int64_t started_ns = 0;
  int64_t first_step_ns = 0;  // 0: no step was seen
  int64_t ended_ns = 0;
  bool completed = false;
  std::string problem;
  std::vector<NodeTruth> nodes;
  std::vector<FaultTruth> faults;
};

std::string to_json(const Truth& truth);

}  // namespace stalltrace::lab
