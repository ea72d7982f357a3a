// SPDX-License-Identifier: Apache-2.0
// The thresholds of verdicts on snapshots, each with its reason. When a wait counts as long is
// analysis/thresholds/hangs.h's.
#pragma once

#include <cstdint>

#include "autopsy/snapshot.h"
#include "base/clock.h"

namespace stalltrace::autopsy {

/// Unanswered retransmissions of one segment from which on a connection counts as silent. One is usual after the loss
/// of a last segment, and is answered; the second follows after twice the time-out.
inline constexpr uint32_t kTriesOfSilence = 2;

/// Bytes that a rank writes or reads in a second on one connection with another, from which on it exchanges data. The
/// heartbeats of PyTorch's store and of NCCL's RAS threads, which go on in a hang, are some hundred. It holds for each
/// connection by itself, since heartbeats of all of them together rise with the number of ranks.
inline constexpr int64_t kProgressBytesPerSecond = 1024;

/// Share of the most that a connection of the job carried, below which a connection does not date the hang: heartbeats
/// go on, and carry little.
inline constexpr uint64_t kBulkShare = 100;  // 1 / this

/// A socket's receive queue from which on its process counts as not reading, if it is as full in the next snapshot.
inline constexpr uint32_t kUnreadBytes = 1;

/// The most confidence in a verdict that compares ranks of hosts whose snapshots are not of one moment: in between a
/// rank may have entered or left its call.
inline constexpr double kApartConfidence = 0.6;

/// Between the first and the last host that was looked at: up to this, no note is needed. It is the longest time
/// between the snapshots of one host.
inline constexpr int64_t kTogetherNs = kLongestWatchSeconds * kNsPerSecond;

/// Beyond this they are not judged together. A hang stays as it is while a person goes from host to host; what was
/// taken hours apart is rather of another hang, or of clocks that differ.
inline constexpr int64_t kMostApartNs = 3600 * kNsPerSecond;

}  // namespace stalltrace::autopsy
