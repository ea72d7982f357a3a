// SPDX-License-Identifier: Apache-2.0
// What shows that a rank is late, and why. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace stalltrace::analysis {

/// A summary of CPU waits names one competitor. From this share on, all of the time counts as the competitor's (the
/// others are its siblings or short); below, only its own time does.
inline constexpr double kMainCompetitorShare = 1.0 / 3;
/// Of the CPU waits of a rank in all stalls of a finding: a throttled cgroup, one process, the job itself or programs
/// outside of it are named as what they were for from this share on.
inline constexpr double kContentionMainShare = 0.5;
/// Competitors from the job itself or the tracer are normal on a small machine; they are the cause only if they cover
/// nearly all of the stalled time.
inline constexpr double kInternalContentionCoverage = 0.9;
/// A contended rank must exceed the middle rank by this factor: on a machine that is busy everywhere no rank is the
/// culprit.
inline constexpr double kContentionContrast = 1.5;
/// A rank that shares its core with other ranks is late because of its own work only if it computed for longer than a
/// scheduler hiccup lasts.
inline constexpr int64_t kMoreWorkNs = 30 * kNsPerMs;
/// The late rank must own this share of all lateness during its stalls; hiccups affect every rank.
inline constexpr double kLateDominance = 0.6;

/// Among several ranks one is last more often by chance: the late rank's part of all lateness must exceed the part that
/// equal chances would give it by this many standard deviations ...
inline constexpr double kLateDeviations = 3;
/// ... where lateness comes in runs, since the collectives of a step are late for one reason: a stall is compared with
/// this many after it ...
inline constexpr size_t kLateRun = 2;
/// ... by how far the rank's part of it differs from its part of this many before and after: in a time in which a rank
/// is always late there is no difference.
inline constexpr size_t kLateAround = 32;
/// Rank 0 evaluates, logs and saves while the others wait. Its lateness is that work if it computes in that time, and
/// if no more than this share of the instances holds ...
inline constexpr double kRareShare = 0.05;
/// ... this share of its lateness.
inline constexpr double kRareWorkShare = 0.8;
/// Any rank evaluates, saves or compiles now and then. While most of its lateness is in so few pauses, or in no larger
/// share of the steps than above, and each of them is that long, it is not known to be a fault: the severity is
/// `waiting`. Three is what a minute of an ordinary job has (one evaluation, one checkpoint, one compilation); in a
/// recording of few steps they must be the smaller half. What is shorter than half a second is no such phase.
inline constexpr size_t kFewPauses = 3;
inline constexpr int64_t kLongPauseNs = 500 * kNsPerMs;

/// A late rank's calls on another communicator are searched this far back from the stall.
inline constexpr int64_t kCallsElsewhere = 256;

}  // namespace stalltrace::analysis
