// SPDX-License-Identifier: Apache-2.0
// The workloads a lab can run: one row each. A row says how its ranks are started; nothing in it helps the tracer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/cluster/host/node.h"
#include "lab/cluster/injection/fault_spec.h"

namespace stalltrace::lab {

inline constexpr int kMasterPort = 29500;

struct RankContext {
  const VirtualNode* node = nullptr;
  std::string master_address;
  int ranks = 0;
  int steps = 0;
  std::string job_id;
  std::string step_log;  // the workload writes a line per finished step
  const std::vector<std::string>* extra = nullptr;
  std::string log;  // for what it prints
};

struct WorkloadRow {
  std::string_view name;
  std::string_view summary;
  std::vector<std::string> (*argv)(const RankContext&);
  std::vector<std::string> (*environment)(const RankContext&);
  std::span<const std::string_view> bugs;  // the mistakes it makes on demand, by the name of the file that demands it
  /// What it needs is on this host; nullptr: nothing.
  Status (*ready)() = nullptr;
  /// One command that starts all ranks, from the namespace that joins the nodes; nullptr: each is started by itself.
  std::vector<std::string> (*launcher)(std::span<const RankContext>) = nullptr;
};

std::span<const WorkloadRow> workload_rows();
/// nullptr: no such workload.
const WorkloadRow* find_workload(std::string_view name);

/// Refuses a fault that needs a mistake which this workload does not make.
Status check_fault(const WorkloadRow& workload, const FaultSpec& spec);

/// Counts the lines of a file that grows. Not there yet: none.
class StepCounter {
 public:
  explicit StepCounter(std::string path) : path_(std::move(path)) {}
  int64_t count();

 private:
  std::string path_;
  int64_t offset_ = 0;
  int64_t steps_ = 0;
};

}  // namespace stalltrace::lab
