// SPDX-License-Identifier: Apache-2.0
// Thresholds of verdicts, with their reasons. How far the clocks of hosts may drift.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstdint>

namespace stalltrace::analysis {

/// Two clocks drift apart by no more than this unless their bounds show it: 50 ppm each, the worst of a quartz.
inline constexpr int64_t kClockDriftPpm = 100;
/// No more than this is believed: it is the fastest at which NTP corrects a clock (adjtimex(2)).
inline constexpr int64_t kMostDriftPpm = 500;

}  // namespace stalltrace::analysis
