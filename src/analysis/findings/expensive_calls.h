// SPDX-License-Identifier: Apache-2.0
// From a finding to the calls behind it: the ids that `explain --instance` takes.
#pragma once

#include <vector>

#include "analysis/findings/cause_groups.h"

namespace stalltrace::analysis {

/// Adds one line of evidence, of kind "collective", to each finding: the ids of one call in each of its most expensive
/// instances (kExpensiveCalls at most), the most expensive first. A finding whose calls are not in `source` gets none.
/// Reads the collectives around those calls: a few short ranges for each finding.
Status add_expensive_calls(EventSource& source, const Cluster& cluster, const Timeline& timeline,
                           std::vector<StallFinding>& findings);

}  // namespace stalltrace::analysis
