// SPDX-License-Identifier: Apache-2.0
// How calls of ranks are matched, and which processes are one job attempt. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace stalltrace::analysis {

/// For communicators made before tracing began, agents on different nodes start within this many calls of each other.
inline constexpr int64_t kOffsetReach = 64;
/// Two sequences are compared at one offset by this many pairs of calls ...
inline constexpr int64_t kOffsetSamples = 256;
/// ... and this share of them must have the same operation and size: a few rows may be lost.
inline constexpr double kOffsetAgreement = 0.95;
/// The two ends of a connection are first seen at different times: up to seconds apart if sockets are listed.
inline constexpr int64_t kConnectionEndsApartNs = 5 * kNsPerSecond;

/// Processes of a host that overlapped for less than this ran one after the other: a start is known to a tick (10 ms).
inline constexpr int64_t kLivesMeetNs = 20 * kNsPerMs;
/// Two agents of a host compute a process's start independently; their results differ by less than this.
inline constexpr int64_t kSameStartNs = 2 * kNsPerSecond;
/// Number of calls needed to determine the time difference between two processes' calls with equal numbers.
inline constexpr int64_t kAttemptSamples = 64;
/// Clocks of different hosts may differ, but within one job the difference between calls with equal numbers is steady,
/// since calls end together: with this many calls or more, its middle half scatters less than the value below ...
inline constexpr int64_t kSteadyCalls = 8;
inline constexpr int64_t kSteadyNs = 20 * kNsPerMs;
/// ... while two runs of one program drift apart: by at least this much, and by this factor.
inline constexpr int64_t kDriftNs = 2 * kNsPerMs;
inline constexpr int64_t kSteadyContrast = 4;
/// Processes of different hosts without a common named communicator are one job only if their lifetimes are at most
/// this far apart, which exceeds the clock error of a maintained host.
inline constexpr int64_t kClocksApartNs = 60 * kNsPerSecond;

}  // namespace stalltrace::analysis
