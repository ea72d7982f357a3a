// SPDX-License-Identifier: Apache-2.0
// Few and long pauses of a rank, as healthy jobs make them: an evaluation, a checkpoint, a compilation.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {

/// The times that stalls cost, of what is judged.
IntervalSet lost_in(const AnalysisContext& context, const std::vector<const Stall*>& stalls);
/// The stalls that hold most of a group's lateness, the longest first. Those of one pause overlap: their time counts
/// once.
std::vector<const Stall*> longest_stalls(const AnalysisContext& context, const CauseGroup& group);
/// The number of steps that were judged, where the calls of `member` show what a step is; of instances otherwise.
int64_t steps_of(const AnalysisContext& context, const CauseGroup& group, MemberIndex member);
/// A few long pauses in the steps of `member`, and nothing else that is worth a finding.
bool is_rare_pause(const AnalysisContext& context, const CauseGroup& group, MemberIndex member);
/// Says so, if the group is rare.
void describe_pauses(const AnalysisContext& context, const CauseGroup& group, Finding& finding);

/// How many steps the stalls of a group lie in, where the rank's calls show what a step is; how many stalls there are
/// otherwise.
int64_t steps_with_stalls(const AnalysisContext& context, const CauseGroup& group);
/// How long a step of the rank is on average; none where its calls do not show what a step is.
std::optional<int64_t> step_length_ns(const AnalysisContext& context, MemberIndex member);

}  // namespace stalltrace::analysis
