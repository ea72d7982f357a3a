// SPDX-License-Identifier: Apache-2.0
// Findings from the calls and the profiler files alone: a link that held sent data (slow_link), a rank that arrived
// last (late_rank). They show where the time went; if the kernel was recorded, its evidence decides instead.
#pragma once

#include <vector>

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {

/// slow_link: chunks that one rank had handed over were in flight to the next rank for most of the stall.
void judge_link_by_steps(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out);
/// False if the group has no step evidence.
bool describe_link_by_steps(const AnalysisContext& context, const CauseGroup& group, Finding& finding);

/// late_rank: by the last rank's arrival, on a node without scheduler evidence.
void judge_late_by_arrival(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out);
/// False if the group has evidence other than arrivals.
bool describe_late_by_arrival(const AnalysisContext& context, const CauseGroup& group, Finding& finding);

}  // namespace stalltrace::analysis
