// SPDX-License-Identifier: Apache-2.0
// Communicator set-up calls that failed, took long, or have not ended.
#pragma once

#include <string>
#include <vector>

#include "analysis/intervals.h"
#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

struct StuckCall {
  const CommunicatorCall* call = nullptr;
  Interval time{0, 0};  // to its end, or to its last observation
  bool failed = false;
};

/// By arrival within each library's order. The result points into `timeline`.
std::vector<StuckCall> stuck_calls(const Cluster& cluster, const Timeline& timeline);

/// "rank 2 (node2, pid 4711) was setting up its communicator for 12.2 s", or the result with which it failed.
std::string stuck_text(const Cluster& cluster, const StuckCall& stuck);

/// When each node's agent ended, on the common clock; nodes without a known end are left out.
std::map<NodeId, int64_t> ends_of_nodes(const Cluster& cluster);

}  // namespace stalltrace::analysis
