// SPDX-License-Identifier: Apache-2.0
// From stalls to findings: the causes are asked about each stall, stalls of one cause and place become a group, and
// groups that cost enough and are no part of others become findings.
#pragma once

#include <vector>

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {

/// Asks the rules about one stall and chooses; the decision has at least one hypothesis.
Decision decide(const AnalysisContext& context, const Stall& stall);

/// A finding, and the stalls that it explains: pointers into the decisions, most expensive first.
struct StallFinding {
  Finding finding;
  std::vector<const Stall*> stalls;
};

/// Most expensive first, those of each job attempt apart. `decisions` must outlive the result.
std::vector<StallFinding> group_by_cause(const AnalysisContext& context, const std::vector<Decision>& decisions,
                                         std::vector<std::string>& notes);

}  // namespace stalltrace::analysis
