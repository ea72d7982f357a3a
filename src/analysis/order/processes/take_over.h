// SPDX-License-Identifier: Apache-2.0
// A finding on a rank that ended, and those on what the others waited for.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "model/finding.h"

namespace stalltrace::analysis {

/// What the others waited for is the rank that ended: removes findings without a known cause, and those on calls that
/// these ranks did not make, and gives `finding` their cost and sentences. Where `finding` names no rank, those that
/// name one stay.
void take_over_waiting(const std::set<int32_t>& ranks, std::vector<Finding>& findings, Finding& finding);

}  // namespace stalltrace::analysis
