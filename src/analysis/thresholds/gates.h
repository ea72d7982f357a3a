// SPDX-License-Identifier: Apache-2.0
// When the cost is a finding, and how severe it is. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "analysis/thresholds/stalls.h"
#include "base/clock.h"

namespace stalltrace::analysis {

/// Minimum cost of a group of stalls that is worth a finding: one long stall, or many that add up.
struct Gate {
  int64_t single_ns;  // one stall of this length is a finding by itself
  int64_t total_ns;   // otherwise the job must have lost this much ...
  double share;       // ... and this share of the time it spans
};

/// Shares refer to at least this time (or the whole recording), so that two hiccups close together are not "half of the
/// time".
inline constexpr int64_t kShareSpanNs = 10 * kNsPerSecond;

/// One timeout of 200 ms occurs on healthy networks (reordering at a tail); two, or one that backed off, do not.
inline constexpr Gate kPacketLossGate{400 * kNsPerMs, 250 * kNsPerMs, 0.03};
/// A garbage collection or a page fault storm ends within 100 ms; small but steady lateness counts by its sum.
inline constexpr Gate kLateRankGate{150 * kNsPerMs, 250 * kNsPerMs, 0.05};
/// Devices wait for each other where batches are uneven: no single wait counts, but one that no batch explains.
inline constexpr Gate kSlowDeviceGate{kNoStepBaselineFloorNs, 500 * kNsPerMs, 0.05};
/// A time slice is 3 to 30 ms: a single stall of this length needs a competitor that keeps the core.
inline constexpr Gate kCpuContentionGate{200 * kNsPerMs, 250 * kNsPerMs, 0.04};
/// A stop by a debugger or freezer is deliberate and has a low gate.
inline constexpr Gate kProcessStoppedGate{100 * kNsPerMs, 200 * kNsPerMs, 0.02};
/// A hang is a finding as soon as it is one.
inline constexpr Gate kHangGate{kHangNs, kHangNs, 0};
/// A timer that doubles twice means more than half a second of silence.
inline constexpr Gate kPartitionGate{500 * kNsPerMs, 500 * kNsPerMs, 0.02};
/// Half of the link rate, for a job that waits for its network a fifth of the time.
inline constexpr Gate kSlowLinkGate{500 * kNsPerMs, 500 * kNsPerMs, 0.10};
/// As for a slow link: the transfer takes longer, nothing is lost.
inline constexpr Gate kSlowReceiverGate{500 * kNsPerMs, 500 * kNsPerMs, 0.10};
/// An `unknown` finding must clearly exceed the noise of a shared machine.
inline constexpr Gate kUnknownGate{500 * kNsPerMs, kNsPerSecond, 0.10};

/// Severity "high": a fifth of the time, or one stall that users notice ...
inline constexpr double kHighShare = 0.2;
inline constexpr int64_t kHighStallNs = kNsPerSecond;
/// ... and "medium": worth an investigation. Below, "low". Hangs and wrong data are critical.
inline constexpr double kMediumShare = 0.05;
/// Maximum number of calls that a finding names for `explain --instance`.
inline constexpr size_t kExpensiveCalls = 3;

/// In addition to explained findings, unexplained stalls below this share of their cost are residue, not a second
/// fault; a slow receiver below this share of another one's cost is its echo.
inline constexpr double kResidueShare = 0.25;

}  // namespace stalltrace::analysis
