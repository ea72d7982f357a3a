// SPDX-License-Identifier: Apache-2.0
// Which instances are stalls. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace stalltrace::analysis {

/// A scheduler hiccup on a busy machine takes 5 to 30 ms; a shorter stall is not worth reading evidence for.
inline constexpr int64_t kStallFloorNs = 10 * kNsPerMs;
/// The baseline is the lower quartile, not the median: a fault that lasts most of a recording sets the median.
inline constexpr double kBaselineQuantile = 0.25;
/// The usual scatter is measured below the baseline, out of the reach of faults ...
inline constexpr double kScatterQuantile = 0.05;
/// ... and a stall exceeds it by this factor, similar to 3 standard deviations.
inline constexpr double kScatterFactor = 3.0;
/// Half of the baseline on top of it: a healthy slow network may scatter that much.
inline constexpr double kBaselineFactor = 0.5;
/// Durations that became longer once and for good are compared with those before, where chance would order them so in
/// fewer cases than this ...
inline constexpr double kLastingChangeByChance = 0.05;
/// ... most of the later ones are longer by at least this share of what was usual ...
inline constexpr double kLastingChangeShare = 0.1;
/// ... and at least this many came before. The middle ones of this many on each side differ by half of that: a drift is
/// no change.
inline constexpr size_t kFewestBeforeALastingChange = 5;
/// The first durations are those of a warm-up, and do not count there.
inline constexpr size_t kSlowFirstDurations = 2;
/// A single stall may be a hiccup; what takes longer each time is none, however short.
inline constexpr int64_t kLastingChangeFloorNs = kNsPerMs;
/// Fewer comparable instances give no baseline: only the absolute floor below applies.
inline constexpr int64_t kBaselineInstances = 8;
/// Without a baseline the usual duration is unknown; only a stall of this length is examined.
inline constexpr int64_t kNoBaselineFloorNs = 150 * kNsPerMs;
/// Of the steps that one synchronisation ends as a whole, this many have to be known for a baseline; with fewer, two at
/// least, only a step that took longer than the quickest quarter by this much is examined: evaluation and compilation
/// make single steps seconds long.
inline constexpr int64_t kNoStepBaselineFloorNs = 10 * kNsPerSecond;
/// The least steps with such a baseline: one, and another to compare it with.
inline constexpr int64_t kFewSteps = 2;
/// One synchronisation ended calls whose ends differ by less: durations are kept in whole microseconds.
inline constexpr int64_t kSameEndNs = 2 * kNsPerUs;
/// In each collective of a step the others wait for a slow device for a few milliseconds: these add up. Shorter waits
/// are the scatter of healthy kernels.
inline constexpr int64_t kDeviceWaitNs = kNsPerMs;
/// Steps that show how late a rank usually is in them, evenly spread over the recording: enough for a quantile, and few
/// to read again for each rank.
inline constexpr size_t kStepsSampled = 48;
/// The first instances of a communicator open connections and fault in memory ...
inline constexpr int64_t kWarmUpInstances = 3;
/// ... which takes tens to hundreds of milliseconds in good health.
inline constexpr int64_t kWarmUpFloorNs = 500 * kNsPerMs;
/// NCCL connects ranks in their first collective (NCCL_RUNTIME_CONNECT, on by default since 2.22). That takes seconds
/// on busy hosts or with many ranks: without evidence of a cause, such a first instance is reported only after this
/// time.
inline constexpr int64_t kConnectingNs = 10 * kNsPerSecond;
/// An instance that has not ended is a hang after this time: it is longer than any timeout that TCP recovers from
/// quietly.
inline constexpr int64_t kHangNs = kNsPerSecond;

/// Minimum number of gaps that were sampled with unread data, from which waits in gaps that were not sampled are
/// extrapolated: where data wait in half of the gaps by chance, five of five do in 3 % of the cases.
inline constexpr int64_t kSingleNodeSightings = 5;
/// Each gap that was sampled later without unread data needs this many more of them.
inline constexpr int64_t kSingleNodeSightingsPerDoubt = 4;

/// Stalls that a rhythm or a beginning is looked for in; fewer show one by chance.
inline constexpr int64_t kFewestForRhythm = 6;
/// A rhythm is claimed where stalls at random instances would show it less often than once in a thousand findings ...
inline constexpr double kRhythmByChance = 0.001;
/// ... and this share of the stalls keeps it.
inline constexpr double kRhythmShare = 0.8;
/// Up to this many stalls between two may have been too short to be found.
inline constexpr int64_t kMostMissedStalls = 2;
/// Instances without the stalls before their first: fewer are no time without them, but a warm-up.
inline constexpr int64_t kFewestBeforeABeginning = 20;

/// A late rank's previous calls are searched this far back in each of its call sequences; no more are ever in flight.
inline constexpr int64_t kPreviousCalls = 256;

/// In a communicator's first instances ranks compile kernels and fill caches, each for its own time: a rank that is
/// late only there is not reported ...
inline constexpr int64_t kSettlingInstances = 40;
/// ... or in this many steps, where a rank's calls show which of them are a step: with tensor parallelism one has
/// hundreds ...
inline constexpr int64_t kSettlingSteps = 5;
/// ... but no longer than this, since what looks like a step may be ten of them (a job that logs in every tenth) ...
inline constexpr int64_t kSettlingLongestNs = 60 * kNsPerSecond;
/// ... unless it is late for longer than that takes.
inline constexpr int64_t kSettlingNs = 5 * kNsPerSecond;

}  // namespace stalltrace::analysis
