// SPDX-License-Identifier: Apache-2.0
// What profiler files alone prove: a link that held what was sent (slow_link), a rank that arrived last (late_rank).
// They show where the time went; where the kernel was recorded, its evidence decides instead.
#pragma once

#include <vector>

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {

/// slow_link: chunks that one rank had handed over were on their way to the next for most of the stall.
void judge_link_by_steps(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out);
/// False when the group is not by steps.
bool describe_link_by_steps(const AnalysisContext& context, const CauseGroup& group, Finding& finding);

/// late_rank: the last rank's arrival, on a node without scheduler evidence.
void judge_late_by_arrival(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out);
/// False when the group is not by arrivals alone.
bool describe_late_by_arrival(const AnalysisContext& context, const CauseGroup& group, Finding& finding);

}  // namespace stalltrace::analysis
