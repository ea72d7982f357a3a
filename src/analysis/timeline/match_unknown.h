// SPDX-License-Identifier: Apache-2.0
// Communicators made before tracing began: nothing names them, so their calls are matched by order and time. Internal
// to the timeline.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

/// Puts sequences of such communicators into groups: same job, same operations and sizes, nearest ends; sets their
/// column offsets. `sequences` are indices into `all`; returns groups of such indices, each index in one group.
/// Quadratic in the sequences, with a bounded number of calls compared for each pair.
std::vector<std::vector<uint32_t>> match_unknown_sequences(std::vector<CallSequence>& all,
                                                           const std::vector<uint32_t>& sequences,
                                                           const Cluster& cluster);

}  // namespace stalltrace::analysis
