// SPDX-License-Identifier: Apache-2.0
// Host counters during the stalls of a finding, for the hosts at its location: memory pressure, packets that network
// cards and CPUs did not take. They are hints beside the evidence of the cause and do not change the verdict.
#pragma once

#include <vector>

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {

/// Empty if the counters are unremarkable, or if the rule of the cause requests no hints.
std::vector<Evidence> host_counter_evidence(const AnalysisContext& context, const CauseGroup& group);

}  // namespace stalltrace::analysis
