// SPDX-License-Identifier: Apache-2.0
// What one end can know of a stall whose other ranks were not recorded. A rank that is in no collective while data of a
// rank elsewhere lie unread at its connections is behind that rank: it is late, or has not come. A process that died
// with a communicator in use, and did not hang before, leaves the others hanging. Nothing is said of ranks elsewhere.
#pragma once

#include <vector>

#include "analysis/evidence/flows.h"
#include "analysis/stalls/hangs/job_ends.h"
#include "analysis/stalls/stall.h"
#include "analysis/timeline/timeline.h"
#include "base/result.h"

namespace stalltrace::analysis {

/// Stalls (Stall::single_node) by recorded ranks on communicators with ranks that were not recorded, in no order. Reads
/// samples of connections where there is such a rank at all.
Result<std::vector<Stall>> find_single_node_stalls(EventSource& source, const Cluster& cluster,
                                                   const Timeline& timeline, const Flows& flows, const JobEnds& ends,
                                                   TimeRange range);

}  // namespace stalltrace::analysis
