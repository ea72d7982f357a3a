// SPDX-License-Identifier: Apache-2.0
// What the hosts at the place of a finding counted during its stalls: memory pressure, packets that network cards and
// CPUs did not take. Hints beside the evidence of the cause; they change nothing in the verdict.
#pragma once

#include <vector>

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {

/// Empty where the hosts counted nothing notable, or the rule of the cause asks for no hints.
std::vector<Evidence> host_counter_evidence(const AnalysisContext& context, const CauseGroup& group);

}  // namespace stalltrace::analysis
