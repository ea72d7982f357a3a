// SPDX-License-Identifier: Apache-2.0
// Phase of the stall search: ranks that waited too long for the last rank, if that rank itself was late.
#pragma once

#include "analysis/stalls/search/search_state.h"

namespace stalltrace::analysis {

/// How long the others may wait for the instance's last rank. The limit is a fixed floor, because a rank that is always
/// late would make its lateness usual; for Send and Recv it is the usual wait of the pair.
int64_t late_limit_ns(const SearchState& search, const Instance& instance);

void judge_late_arrival(SearchState& search, const Instance& instance);

}  // namespace stalltrace::analysis
