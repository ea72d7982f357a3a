// SPDX-License-Identifier: Apache-2.0
// Bounds on the clock offsets of hosts, from the collectives, Sends and Recvs of a recording.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "analysis/timeline/clock_offsets/offset_bounds.h"
#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

/// The key of a sequence's group (SequenceTable::group_key), by the sequence's index: that of a rank's Sends to another
/// rank is that of the other's Recvs from it.
using GroupKey = std::function<uint64_t(uint32_t)>;

/// True for a sequence, by its index, whose calls are numbered from the first one of its communicator: the creation
/// of that is recorded, and no record of a call may be lost. Numbers of Sends and Recvs count from the first record
/// that came, so that a lost one shifts all others.
using CountedFromStart = std::function<bool(uint32_t)>;

/// Uses every synchronising instance of a known communicator, then narrow_by_measured_clocks() and
/// narrow_by_kernel_clocks(), then NCCL's and RCCL's Sends with their Recvs. The bounds are relative to the first host
/// with a collective operation on a known communicator; if there is none, to the first one with such a Send or Recv,
/// then with any call. The sequences' times are on each host's own clock. Linear in the calls.
OffsetBounds bound_offsets(const std::vector<CallSequence>& sequences, const std::vector<CallSignature>& signatures,
                           const Cluster& cluster, const GroupKey& group_key, const CountedFromStart& counted);

/// Narrows the bounds by what was measured of the hosts' clocks, as far as that does not contradict what the
/// collectives show: they prove their bounds.
void narrow_by_measured_clocks(const Cluster& cluster, OffsetBounds& bounds);

}  // namespace stalltrace::analysis
