// SPDX-License-Identifier: Apache-2.0
// Phase of the stall search: do ranks wait, at the end of their observation, for one that is recorded but never came?
#pragma once

#include "analysis/stalls/search/search_state.h"

namespace stalltrace::analysis {

/// Blames where the absent ranks are. Where they are held up by another instance that all have entered, that one is
/// handed to the transfer phase.
void judge_absence(SearchState& search, const Instance& instance);

}  // namespace stalltrace::analysis
