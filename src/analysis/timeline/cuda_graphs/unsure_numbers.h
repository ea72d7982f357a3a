// SPDX-License-Identifier: Apache-2.0
// Communicators on which the ranks may number their calls differently, because CUDA graphs were launched beside them.
#pragma once

#include <cstddef>
#include <vector>

#include "analysis/timeline/cluster.h"
#include "analysis/timeline/timeline.h"
#include "model/events/collective.h"

namespace stalltrace::analysis {

/// Of a communicator that was made before tracing began, the numbers come from the profiler file. That counts each
/// launch of a graph, and the probes do not: ranks that are traced from different times on number the calls beside
/// graphs differently. The hash of such calls is set to 0: they are matched as those of communicators without names
/// are. Returns the number of such communicators. Linear in the sequences and communicators.
size_t forget_unsure_names(const std::vector<GraphUse>& graph_uses, const Cluster& cluster,
                           std::vector<CallSequence>& sequences);

}  // namespace stalltrace::analysis
