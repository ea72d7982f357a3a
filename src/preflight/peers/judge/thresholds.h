// SPDX-License-Identifier: Apache-2.0
// When a measurement between nodes is a warning or a failure. docs/preflight.md names these constants beside its
// numbers, and tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace stalltrace::preflight {

/// A ring is as fast as its slowest link. Half is more than chance between equal nodes; a quarter costs most of the
/// speed whatever the network is. A slow pair is tested once more: a CPU that was busy is no fault of the network.
inline constexpr double kSlowPair = 0.5;
inline constexpr double kVerySlowPair = 0.25;
/// Of an interface's speed. TCP loses some percent for headers; below a tenth something is broken.
inline constexpr double kLowLineShare = 0.5;
inline constexpr double kBrokenLineShare = 0.1;
/// Below this share of waiting the sender's CPU was the limit, and says nothing of the network.
inline constexpr double kNetworkIsLimit = 0.2;
inline constexpr double kReceiverIsLimit = 0.5;
/// A flow of which nothing is acknowledged in two round trips was lost; in less the answer can be on its way.
inline constexpr int64_t kFewRoundTrips = 2;
/// TCP's throughput falls with the root of the loss: at 1 % it is a fraction on any path. Fewer than 20 segments are
/// chance.
inline constexpr double kLoss = 0.01;
inline constexpr double kSomeLoss = 0.001;
inline constexpr int64_t kFewSegments = 20;
/// Round trips inside a cluster take some 10 us to 100 us.
inline constexpr int64_t kLatencyFactor = 4;
inline constexpr int64_t kLatencyNs = 500 * kNsPerUs;
/// Each collective waits for its last rank: 5 ms are a tenth of a step of 50 ms.
inline constexpr int64_t kStragglerFactor = 3;
inline constexpr int64_t kStragglerNs = 500 * kNsPerUs;
inline constexpr int64_t kBadStragglerFactor = 10;
inline constexpr int64_t kBadStragglerNs = 5 * kNsPerMs;
/// A scheduler's turns are some milliseconds; a rank that pauses for a tenth of a second did not get a CPU, or its
/// packet was lost (TCP repeats after 200 ms).
inline constexpr int64_t kPauseNs = 100 * kNsPerMs;
/// A ring of ranks has the bandwidth of one link on its bus. Half of it is more than what a library loses; small sizes
/// are a matter of latency.
inline constexpr double kLowBusShare = 0.5;
inline constexpr int64_t kBusBytes = 1 << 20;
/// Launchers start the ranks of a job within a few seconds.
inline constexpr int64_t kLateStartNs = 10 * kNsPerSecond;

}  // namespace stalltrace::preflight
