// SPDX-License-Identifier: Apache-2.0
// The order of calls alone: what logs and dumps show. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace stalltrace::analysis {

/// A CPU can't be further ahead of a rank that is missing: a CUDA stream's queue holds about 1,024 launches. If the
/// others went on for longer, they were not waiting: the end of that rank's log is missing.
inline constexpr int64_t kMostCallsAhead = 1024;
/// Where nothing shows that the job stood still, only a difference of this many calls is reported: a program launches a
/// few collectives before it waits. More are lost with one buffer of the C library (4 KiB, some 20 lines).
inline constexpr int64_t kMostUnprovenCallsAhead = 4;
/// A rank counts as silent if its log goes on without its call for this long after the others' ...
inline constexpr int64_t kSilentNs = kNsPerSecond;
/// ... and for this many times the longest time between two calls of the others.
inline constexpr int64_t kLongestPauses = 4;
/// PyTorch's watchdog asks for the state of all ranks when it reports a timeout, and each looks for that once a second
/// (TORCH_NCCL_COORD_CHECK_MILSEC, 1000 ms): numbers that a rank printed up to this long before the report are of the
/// same moment. As much again is left for the clocks of hosts.
inline constexpr int64_t kStatementsApartNs = 2 * kNsPerSecond;
/// Of the processes that torchrun saw end on several hosts, the first is before the others by more than the clocks of
/// the hosts may differ ...
inline constexpr int64_t kFailuresApartNs = 5 * kNsPerSecond;
/// ... and not by about whole hours: torchrun prints local times, and hosts may be in different time zones.
inline constexpr int64_t kNearWholeHoursNs = 60 * kNsPerSecond;
/// The rank left its communicator although others are in a later call.
inline constexpr double kLeftConfidence = 0.9;
/// The call before ended, so that the rank is outside, as in a Flight Recorder dump.
inline constexpr double kOutsideConfidence = 0.8;
/// A log shows who began a call last. It does not show whether the rank still waits inside the call before.
inline constexpr double kStandingStillConfidence = 0.6;
/// Nor, without more, whether the log is complete ...
inline constexpr double kOrderAloneConfidence = 0.4;
/// ... or, without the logs of all ranks, whether another one is further behind.
inline constexpr double kSomeRanksConfidence = 0.3;

}  // namespace stalltrace::analysis
