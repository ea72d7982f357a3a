// SPDX-License-Identifier: Apache-2.0
// When a live finding is reported. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace stalltrace::analysis {

/// A stall that only one round sees may come from the edge of the window, where ends and evidence are still missing.
inline constexpr int kRoundsToReport = 2;
/// A finding ends when its last stall ended this long ago: an intermittent fault continues.
inline constexpr int64_t kLiveQuietNs = 4 * kNsPerSecond;
/// A finding with the same cause and location within this time is the same finding again.
inline constexpr int64_t kLiveReturnNs = 60 * kNsPerSecond;
/// A finding is printed again when its cost has grown by this factor: a hang of days is printed some fifty times.
inline constexpr double kLiveGrowth = 1.2;
/// Keep this much history from before a finding's start, so that the baseline is not learned from the fault itself.
inline constexpr int64_t kHeldBeforeNs = 30 * kNsPerSecond;
/// For a hang that outlasts the window, calls and evidence from shortly before its start are kept as well.
inline constexpr int64_t kHeldBeforeHangNs = kNsPerSecond;
inline constexpr int64_t kHeldIntoHangNs = 20 * kNsPerSecond;

}  // namespace stalltrace::analysis
