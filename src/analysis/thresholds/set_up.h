// SPDX-License-Identifier: Apache-2.0
// Which set-ups of communicators failed. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace stalltrace::analysis {

/// A healthy communicator set-up takes seconds, and ranks start seconds apart ...
inline constexpr int64_t kInitHangNs = 5 * kNsPerSecond;
/// ... so it is a failure only if this many connection attempts failed while others waited. A set-up with that many
/// failed attempts that has not ended is reported sooner.
inline constexpr int64_t kUnreachedAttempts = 3;
inline constexpr int64_t kOpenInitNs = 2 * kNsPerSecond;
/// Ranks of one job with different variables are started within this time of each other.
inline constexpr int64_t kStartedTogetherNs = 60 * kNsPerSecond;
/// A rank without a recorded process counts as awaited when another rank has been in its set-up for this long.
inline constexpr int64_t kAbsentRankNs = 10 * kNsPerSecond;

/// Failed connection attempts during a set-up: something else may have delayed the set-up as well.
inline constexpr double kInitFailureConfidence = 0.95;

}  // namespace stalltrace::analysis
