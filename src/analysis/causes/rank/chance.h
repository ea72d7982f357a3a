// SPDX-License-Identifier: Apache-2.0
// Whether one rank is late more often than chance makes any rank late.
#pragma once

#include <vector>

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {

/// For each of all groups of a cause, one for each late rank: true unless the rank has most of all lateness
/// (kLateDominance; the second-latest rank is left out of the sum, since two ranks may be late all the time), and more
/// than equal chances would give it (kLateDeviations).
std::vector<bool> late_by_chance(const AnalysisContext& context, const std::vector<CauseGroup>& groups);

/// For each of all groups of a cause, one for each late rank: true if it is late no more often than another one, or by
/// no more than chance explains. Then what they have in common makes them late, such as their stage of a pipeline.
std::vector<bool> alternates_with_another(const std::vector<CauseGroup>& groups);

}  // namespace stalltrace::analysis
