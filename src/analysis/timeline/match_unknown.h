// SPDX-License-Identifier: Apache-2.0
// Matches the calls of communicators made before tracing began, which have no names, by order and time. Internal to the
// timeline.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

/// Groups sequences of such communicators (same job, same operations and sizes, nearest ends) and sets their number
/// offsets. `sequences` are indices into `all`; the result has each index in exactly one group. Quadratic in the number
/// of sequences, with a bounded number of compared calls per pair.
std::vector<std::vector<uint32_t>> match_unknown_sequences(std::vector<CallSequence>& all,
                                                           const std::vector<uint32_t>& sequences,
                                                           const Cluster& cluster);

}  // namespace stalltrace::analysis
