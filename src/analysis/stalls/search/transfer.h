// SPDX-License-Identifier: Apache-2.0
// Phase of the stall search: transfers that took too long, or hang although all ranks have arrived.
#pragma once

#include "analysis/stalls/search/search_state.h"

namespace stalltrace::analysis {

/// True for an instance whose transfer must be judged after all late and missing ranks are known.
bool may_be_long_transfer(SearchState& search, const Instance& instance);

/// Runs after all late and missing ranks: time in which the ranks waited for those in other instances is no transfer.
/// May add another instance that holds this one up (SearchState::transfers).
void judge_transfer(SearchState& search, const Instance& instance);

}  // namespace stalltrace::analysis
