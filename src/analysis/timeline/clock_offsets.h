// SPDX-License-Identifier: Apache-2.0
// Bounds on the clock offsets of hosts, from the collectives of a recording.
#pragma once

#include <vector>

#include "analysis/timeline/clock.h"
#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

/// Uses every synchronising instance of a known communicator. The bounds are relative to the first host that took part
/// in one. The sequences' times are on each host's own clock.
OffsetBounds bound_offsets(const std::vector<CallSequence>& sequences, const std::vector<CallSignature>& signatures,
                           const Cluster& cluster);

/// Narrows the bounds by what was measured of the hosts' clocks, as far as that does not contradict what the
/// collectives show: they prove their bounds.
void narrow_by_measured_clocks(const Cluster& cluster, OffsetBounds& bounds);

}  // namespace stalltrace::analysis
