// SPDX-License-Identifier: Apache-2.0
// Ranks of a communicator that no recording shows: what they did, and whether they live, is not known.
#pragma once

#include <cstdint>

#include "analysis/rank_numbers.h"
#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

/// False if a rank of the group is missing. Ranks that were started and have called nothing yet are not there either.
bool all_ranks_recorded(const Cluster& cluster, const Timeline& timeline, uint32_t group);

/// The ranks of the group's communicator that took no part, except those that were started and called nothing yet.
/// Empty if their numbers are not known, as on a communicator that was made before tracing began.
MissingRanks unrecorded_ranks(const Cluster& cluster, const Timeline& timeline, uint32_t group);

}  // namespace stalltrace::analysis
