// SPDX-License-Identifier: Apache-2.0
// The workloads that a lab can run: one row each. A row only defines how its ranks are started; nothing in it helps the
// tracer.
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
  std::string log;  // for its output
};

struct WorkloadRow {
  std::string_view name;
  std::string_view summary;
  std::vector<std::string> (*argv)(const RankContext&);
  std::vector<std::string> (*environment)(const RankContext&);
  std::span<const std::string_view> bugs;  // its bugs, by the name of the file that switches each on
  /// Checks that its requirements are installed; nullptr: none.
  Status (*ready)() = nullptr;
  /// The command that starts all ranks, in the namespace that joins the nodes; nullptr: each is started separately.
  std::vector<std::string> (*launcher)(std::span<const RankContext>) = nullptr;
};

std::span<const WorkloadRow> workload_rows();
/// nullptr: no such workload.
const WorkloadRow* find_workload(std::string_view name);

/// Refuses a fault that needs a bug which this workload does not have.
Status check_fault(const WorkloadRow& workload, const FaultSpec& spec);

/// Counts the lines of a growing file. 0 if it does not exist yet.
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
