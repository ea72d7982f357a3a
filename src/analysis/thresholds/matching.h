// SPDX-License-Identifier: Apache-2.0
// Which calls on communicators made before tracing began are one instance. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace stalltrace::analysis {

/// Ranks end an instance together, and each notices the end when its thread runs: on one clock the middle difference is
/// at most this. Two stages of a pipeline, or two phases of a step, are further apart as a rule. Ranks that are joined
/// wrongly seem late by no more than this on average, twice what is a stall (kStallFloorNs) ...
inline constexpr int64_t kMatchedEndsApartNs = 20 * kNsPerMs;
/// ... and this much more where the clocks of two hosts cannot be compared (NTP keeps each within some 50 ms of UTC),
/// or where calls have no ends: ranks may arrive apart.
inline constexpr int64_t kMatchedUncertainNs = 100 * kNsPerMs;
/// Of several communicators that a rank's calls may belong to, one is clearly the nearest if the next one is further
/// away by this factor ...
inline constexpr int64_t kMatchContrast = 2;
/// ... where nearer than this counts as this far: threads that wait for one event run again within about that time.
inline constexpr int64_t kMatchScatterNs = 100 * kNsPerUs;
/// A sequence is compared with up to this many others, or with none: a comparison looks at thousands of pairs of calls.
/// 1,000 ranks in groups of 8 have 125 of these groups.
inline constexpr size_t kMostMatchCandidates = 128;

}  // namespace stalltrace::analysis
