// SPDX-License-Identifier: Apache-2.0
// What another run of the job, which was right, shows (`explain --like`). Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace stalltrace::analysis {

/// Most instances of a class take longer than in the other run: that is no hiccup, and a few milliseconds in each of
/// them add up. Less is within what two runs measure differently.
inline constexpr int64_t kReferenceFloorNs = kNsPerMs;
/// Steps of two runs differ by their data and by where they compute: only steps that take longer by this share do so
/// because of a fault.
inline constexpr double kReferenceStepFactor = 0.25;

}  // namespace stalltrace::analysis
