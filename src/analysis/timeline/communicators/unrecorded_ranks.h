// SPDX-License-Identifier: Apache-2.0
// Ranks of a communicator that no recording shows: what they did, and whether they live, is not known.
#pragma once

#include <vector>

#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

/// Sets Group::unrecorded and Group::all_took_part. A communicator that was made before tracing began has no size: it
/// is judged by its job, of whose ranks any may be in it. A process without calls counts as recorded, unless `losses`
/// show that processes of its node were refused: it may be one that was followed late. Linear in the recorded
/// processes, for each job attempt and for each communicator with missing ranks.
void find_unrecorded_ranks(const Cluster& cluster, const std::vector<Loss>& losses,
                           const std::vector<CallSequence>& sequences, std::vector<Group>& groups);

}  // namespace stalltrace::analysis
