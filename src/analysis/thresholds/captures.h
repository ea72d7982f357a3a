// SPDX-License-Identifier: Apache-2.0
// Packet captures. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace stalltrace::analysis {

/// Retransmissions are trouble from this share of a flow's bytes on: healthy networks have fewer, by reordering or full
/// queues; from 1 % on TCP's rate falls to a fraction (Mathis et al.: by the root of the share).
inline constexpr double kRetransmitShare = 0.01;
/// With fewer retransmissions the share means nothing.
inline constexpr int64_t kLeastRetransmits = 3;
/// An unacknowledged segment that was sent again this often is stuck: its timer has doubled twice.
inline constexpr int64_t kStuckRepeats = 3;
/// A closed window is trouble from this part of the flow's time on ...
inline constexpr double kClosedWindowShare = 0.05;
/// ... or, in all, from this on: a retransmission timeout.
inline constexpr int64_t kClosedWindowNs = 200 * kNsPerMs;
/// Retransmissions are of one host if it has this share of them, and at least two peers.
inline constexpr double kOneHostShare = 0.9;

}  // namespace stalltrace::analysis
