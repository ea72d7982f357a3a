// SPDX-License-Identifier: Apache-2.0
// Calls that make a communicator and failed, or took long, or have not ended.
#pragma once

#include <string>
#include <vector>

#include "analysis/intervals.h"
#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

struct StuckCall {
  const CommunicatorCall* call = nullptr;
  Interval time{0, 0};  // to its end, or as long as it was seen
  bool failed = false;
};

/// By arrival within each library's order. Points into `timeline`.
std::vector<StuckCall> stuck_calls(const Cluster& cluster, const Timeline& timeline);

/// "rank 2 (node2, pid 4711) was setting up its communicator for 12.2 s", or with which result it failed.
std::string stuck_text(const Cluster& cluster, const StuckCall& stuck);

/// When each node's agent ended, in the common clock; nodes whose end is unknown are left out.
std::map<NodeId, int64_t> ends_of_nodes(const Cluster& cluster);

}  // namespace stalltrace::analysis
