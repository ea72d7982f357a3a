// SPDX-License-Identifier: Apache-2.0
// How far the clocks of hosts may drift. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace stalltrace::analysis {

/// Two clocks drift apart by no more than this unless their bounds show it: 50 ppm each, the worst of a quartz.
inline constexpr int64_t kClockDriftPpm = 100;
/// No more than this is believed: it is the fastest at which NTP corrects a clock (adjtimex(2)).
inline constexpr int64_t kMostDriftPpm = 500;

/// Bounds may contradict each other by this much beside drift, since a host's thread sees late what its device did.
inline constexpr int64_t kSeenLateNs = kNsPerMs;

/// The time in which hosts were in calls with each other is divided into this many slices, of each of which the
/// narrowest bounds are kept. Bounds that are farther apart than two slices have none between them.
inline constexpr size_t kClockSlices = 64;
/// The bounds of one side show a rate only if this many slices have one.
inline constexpr size_t kSideSlices = 16;
/// The scatter of one side's bounds: this share of them is no farther from their line.
inline constexpr double kScatterShare = 0.9;
/// How far the rate of a clock may be from that of one side's bounds: this many scatters over the time. Scatter by
/// chance moves a rate by 1.7 of them in 1 % of tries with 16 slices, by 0.7 with 64 (simulated). The rest is for
/// scatter that is not by chance.
inline constexpr double kRateScatters = 2;
/// Nor is it known better than by this over the time: the shortest transfers may become longer all the time.
inline constexpr int64_t kSteadyGrowthNs = 500 * kNsPerUs;
/// The two sides show one rate if they are no farther apart than this share of the larger uncertainty.
inline constexpr double kSidesAgree = 0.5;
/// This many ends of collectives on two hosts show where between its bounds a clock is ...
inline constexpr size_t kFewestEnds = 32;
/// ... if half of them are no farther from their line than this: the ranks of a collective end it at about the same
/// time, but the threads that report it are woken later.
inline constexpr int64_t kEndsScatterNs = 100 * kNsPerUs;
/// Less drift than this while the job ran is not distinguished from none.
inline constexpr int64_t kEndsAgreeNs = 20 * kNsPerUs;
/// A clock that NTP steers wanders from its line by up to this many scatters of the bounds.
inline constexpr double kWanderFactor = 1.5;

}  // namespace stalltrace::analysis
