// SPDX-License-Identifier: Apache-2.0
// From stalls to findings: every cause judges every stall, stalls of one cause and location form a group, and groups
// that cost enough and belong to no other group become findings.
#pragma once

#include <vector>

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {

/// Applies the rules to one stall and chooses; the decision has at least one hypothesis.
Decision decide(const AnalysisContext& context, Stall stall);

/// A finding and the stalls that it explains: pointers into the decisions, most expensive first.
struct StallFinding {
  Finding finding;
  std::vector<const Stall*> stalls;
  bool unproven = false;  // `waiting`, though the others have waited long: only a proof that the rank hangs is missing
};

/// Most expensive first; job attempts are kept apart. `decisions` must outlive the result.
std::vector<StallFinding> group_by_cause(const AnalysisContext& context, const std::vector<Decision>& decisions,
                                         std::vector<std::string>& notes);

/// Sets Decision::finding. `findings` were made from these decisions, and `before` others precede them in the report.
void note_findings(const std::vector<StallFinding>& findings, size_t before, std::vector<Decision>& decisions);

}  // namespace stalltrace::analysis
