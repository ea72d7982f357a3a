// SPDX-License-Identifier: Apache-2.0
// Phase of the stall search: instances that ranks entered with different calls, and some of them never left.
#pragma once

#include "analysis/stalls/search/search_state.h"

namespace stalltrace::analysis {

/// Also where other ranks ended their part and went on, so that the instance itself seems to have passed.
void judge_hanging_mismatches(SearchState& search);

}  // namespace stalltrace::analysis
