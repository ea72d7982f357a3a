// SPDX-License-Identifier: Apache-2.0
// Phase of the stall search: instances that ranks entered with different calls and that some ranks never left.
#pragma once

#include "analysis/stalls/search/search_state.h"

namespace stalltrace::analysis {

/// Includes instances that other ranks completed and passed, so that the instance itself seems to have ended.
void judge_hanging_mismatches(SearchState& search);

}  // namespace stalltrace::analysis
