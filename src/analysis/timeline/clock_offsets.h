// SPDX-License-Identifier: Apache-2.0
// What the collectives of a recording say of its hosts' clocks.
#pragma once

#include <vector>

#include "analysis/timeline/clock.h"
#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

/// Bounds from every instance of a known communicator that synchronises its ranks, against the first host that took
/// part in one. The sequences' times are each host's own.
OffsetBounds bound_offsets(const std::vector<CallSequence>& sequences, const std::vector<CallSignature>& signatures,
                           const Cluster& cluster);

}  // namespace stalltrace::analysis
