// SPDX-License-Identifier: Apache-2.0
// Among thousands of ranks a rule compares one with a few: their middle is that of all.
#pragma once

#include <vector>

#include "analysis/timeline/cluster.h"

namespace stalltrace::analysis {

/// The median of this many ranks lies between the 40th and the 60th percentile of all in 9 of 10 draws.
inline constexpr size_t kMostCompared = 64;

/// The ranks that a rank of `members` is compared with: all of up to kMostCompared, else as many, chosen by their
/// number alone, so that all stalls of a communicator have the same.
std::vector<MemberIndex> compared_members(const std::vector<MemberIndex>& members);

}  // namespace stalltrace::analysis
