// SPDX-License-Identifier: Apache-2.0
// Phase of the stall search: did the others wait too long for the last rank, and was that its own lateness?
#pragma once

#include "analysis/stalls/search/search_state.h"

namespace stalltrace::analysis {

/// How long the others may wait for the last rank of the instance: a fixed floor, since a rank that is always late is
/// never unusual; for Send and Recv by what is usual for the pair.
int64_t late_limit_ns(const SearchState& search, const Instance& instance);

void judge_late_arrival(SearchState& search, const Instance& instance);

}  // namespace stalltrace::analysis
