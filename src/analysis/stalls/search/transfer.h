// SPDX-License-Identifier: Apache-2.0
// Phase of the stall search: did the transfer take too long, or does it hang though all ranks have arrived?
#pragma once

#include "analysis/stalls/search/search_state.h"

namespace stalltrace::analysis {

/// True for an instance whose transfer is to be judged once all late and missing ranks are known.
bool may_be_long_transfer(SearchState& search, const Instance& instance);

/// After all late and missing ranks: what the ranks waited for those elsewhere is no transfer. May hand in another
/// instance that this one is held up by (SearchState::transfers).
void judge_transfer(SearchState& search, const Instance& instance);

}  // namespace stalltrace::analysis
