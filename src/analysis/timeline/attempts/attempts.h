// SPDX-License-Identifier: Apache-2.0
// Job attempts: the sets of processes that are one job. A restart (torchrun, a requeued batch job) and the next job at
// the same address and port have new processes but old communicator names; two simultaneous jobs may also have equal
// names.
#pragma once

#include <vector>

#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

/// Assigns every member of the cluster to its attempt; attempts are numbered by the start of their first process. Times
/// may be on the hosts' own clocks, aligned or not.
void find_attempts(Cluster& cluster, const std::vector<CallSequence>& sequences,
                   const std::vector<CommunicatorCall>& calls);

}  // namespace stalltrace::analysis
