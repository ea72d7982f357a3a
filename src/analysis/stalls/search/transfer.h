// SPDX-License-Identifier: Apache-2.0
// Phase of the stall search: transfers that took too long, or hang although all ranks have arrived.
#pragma once

#include "analysis/stalls/search/search_state.h"

namespace stalltrace::analysis {

/// How long the instance's transfer may take, in ns: by its baseline and, while the job warms up, kWarmUpFloorNs or
/// more.
int64_t transfer_limit_ns(const SearchState& search, const Instance& instance);

/// True for an instance whose transfer must be judged after all late and missing ranks are known.
bool may_be_long_transfer(SearchState& search, const Instance& instance);

/// Runs after all late and missing ranks: time in which the ranks waited for those in other instances is no transfer.
/// May add another instance that holds this one up (SearchState::transfers).
void judge_transfer(SearchState& search, const Instance& instance);

}  // namespace stalltrace::analysis
