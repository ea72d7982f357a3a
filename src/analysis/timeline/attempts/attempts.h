// SPDX-License-Identifier: Apache-2.0
// Job attempts: which processes are one job. A restart (torchrun, a requeued batch job) and the next job at the same
// address and port have new processes and old communicator names; two jobs at once may have equal ones, too.
#pragma once

#include <vector>

#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

/// Gives every member of the cluster its attempt, numbered by when the first process of each started. Times are those
/// of the hosts, aligned or not.
void find_attempts(Cluster& cluster, const std::vector<CallSequence>& sequences,
                   const std::vector<CommunicatorCall>& calls);

}  // namespace stalltrace::analysis
