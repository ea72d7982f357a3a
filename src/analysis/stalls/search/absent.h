// SPDX-License-Identifier: Apache-2.0
// Phase of the stall search: ranks that wait, at the end of their observation, for a recorded rank that never came.
#pragma once

#include "analysis/stalls/search/search_state.h"

namespace stalltrace::analysis {

/// Blames the state of the absent ranks. If they are held up by another instance that all have entered, the transfer
/// phase judges that instance.
void judge_absence(SearchState& search, const Instance& instance);

}  // namespace stalltrace::analysis
