// SPDX-License-Identifier: Apache-2.0
// From decisions to findings: stalls of one cause and place are folded, costed, and said when they cost enough.
#pragma once

#include <vector>

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {

/// Asks every rule about every stall and chooses.
Decision decide(const AnalysisContext& context, const Stall& stall);

/// Dearest first.
std::vector<Finding> fold(const AnalysisContext& context, const std::vector<Decision>& decisions);

}  // namespace stalltrace::analysis
