// SPDX-License-Identifier: Apache-2.0
// Bounds of the work on evidence. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace stalltrace::analysis {

/// Evidence is read from this long before a stall, and to this long after it: the late rank's last work, the
/// connection's state.
inline constexpr int64_t kEvidenceMarginNs = 500 * kNsPerMs;
/// At most this much of one stall is examined; a hang of hours looks the same throughout.
inline constexpr int64_t kLongestStallNs = 120 * kNsPerSecond;
/// Maximum number of examined stalls, the most expensive ones; more of the same would not change a verdict.
inline constexpr int64_t kMaxStalls = 100'000;
/// ... and of the ranks that they name, at 2 bytes each: a stall of 8,192 ranks names each of them up to twice.
inline constexpr int64_t kMaxStallMembers = 50'000'000;
/// Maximum number of rows of each evidence table in memory (about 64 bytes each).
inline constexpr int64_t kMaxEvidenceRows = 1'500'000;
/// Maximum number of Python stack samples; a node records at most some tens a minute.
inline constexpr int64_t kMostPythonStacks = 100'000;

}  // namespace stalltrace::analysis
