// SPDX-License-Identifier: Apache-2.0
// The calls of the instances that a finding explains, for programs that show them.
#pragma once

#include <vector>

#include "analysis/findings/cause_groups.h"

namespace stalltrace::analysis {

/// The most calls of one finding: its most expensive instances have them, each instance in full.
inline constexpr size_t kMostStalledCalls = 20'000;

/// Sets Finding::stalled of each finding.
void add_stalled_calls(const Cluster& cluster, const Timeline& timeline, std::vector<StallFinding>& findings);

}  // namespace stalltrace::analysis
