// SPDX-License-Identifier: Apache-2.0
// Phase of the stall search: ranks that waited too long for the last rank, if that rank itself was late.
#pragma once

#include "analysis/stalls/search/search_state.h"

namespace stalltrace::analysis {

/// How long the others may wait for the instance's last rank. The limit is a fixed floor, because a rank that is always
/// late would make its lateness usual; for Send and Recv it is the usual wait of the pair. While the job warms up, it
/// is kWarmUpFloorNs or more. In ns.
int64_t late_limit_ns(const SearchState& search, const Instance& instance);

/// Adds a stall with a LateArrival to `search` if the last rank came later than that and cost the job time, and keeps
/// the reason otherwise, if the instance is watched. Waits whose culprit the clocks do not show are added to the
/// search's unplaced waits.
void judge_late_arrival(SearchState& search, const Instance& instance);

}  // namespace stalltrace::analysis
