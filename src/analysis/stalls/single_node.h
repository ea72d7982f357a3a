// SPDX-License-Identifier: Apache-2.0
// Stalls that one node's recording shows although the other ranks were not recorded. A rank is behind another rank if
// it is in no collective while data of that rank lie unread at its connections: it is late, or has not come. A process
// that died with a communicator in use leaves the others hanging, unless it hung before, or ended inside a call as one
// does whose call failed. No conclusion is drawn about ranks on other nodes.
#pragma once

#include <vector>

#include "analysis/evidence/flows.h"
#include "analysis/stalls/hangs/job_ends.h"
#include "analysis/stalls/stall.h"
#include "analysis/timeline/timeline.h"
#include "base/result.h"

namespace stalltrace::analysis {

/// Stalls (Stall::single_node) of recorded ranks on communicators with unrecorded ranks, in no order. Reads connection
/// samples only if there is such a rank.
Result<std::vector<Stall>> find_single_node_stalls(EventSource& source, const Cluster& cluster,
                                                   const Timeline& timeline, const Flows& flows, const JobEnds& ends,
                                                   TimeRange range);

}  // namespace stalltrace::analysis
