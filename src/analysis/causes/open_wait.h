// SPDX-License-Identifier: Apache-2.0
// Waits that had not ended when the recording did: for how long, and whether the awaited rank may still come.
#pragma once

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {

/// The stall to describe: the one nearest to the root, of those that have not ended if there are any.
const Stall& nearest(const CauseGroup& group);

/// The longest time that the ranks of the stall's communicator waited for the last one in an earlier instance, once it
/// had warmed up; 0 if none is known. The transfer is part of it where some ranks were not recorded. At most
/// kMostWaitsSearched instances.
int64_t longest_wait_before_ns(const AnalysisContext& context, const Stall& stall);

/// True if processes ended before the recording did: the absent rank, or all ranks that wait for it.
bool processes_ended(const AnalysisContext& context, const CauseGroup& group);

/// Longer than healthy ranks usually let others wait: from here on a rank that is blocked hangs.
int64_t long_wait_ns(const AnalysisContext& context, const CauseGroup& group);

/// True if nothing proves a hang yet: all live, and the wait is no longer than healthy ranks need now and then, as for
/// an evaluation on one rank. `busy`: what the others wait for is at work, as far as that is known; then that is
/// kUnprovenWaitNs.
bool may_still_come(const AnalysisContext& context, const CauseGroup& group, bool busy);

}  // namespace stalltrace::analysis
