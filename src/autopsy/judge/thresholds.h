// SPDX-License-Identifier: Apache-2.0
// The thresholds of verdicts on snapshots, each with its reason. When a wait counts as long is
// analysis/thresholds/hangs.h's.
#pragma once

#include <cstdint>

namespace stalltrace::autopsy {

/// Unanswered retransmissions of one segment from which on a connection counts as silent. One is usual after the loss
/// of a last segment, and is answered; the second follows after twice the time-out.
inline constexpr uint32_t kTriesOfSilence = 2;

/// Bytes that ranks exchange in a second, all together, from which on the job progresses. The heartbeats of PyTorch's
/// store and of NCCL's RAS threads, which go on in a hang, are some hundred.
inline constexpr int64_t kProgressBytesPerSecond = 1024;

/// Share of the most that a connection of the job carried, below which a connection does not date the hang: heartbeats
/// go on, and carry little.
inline constexpr uint64_t kBulkShare = 100;  // 1 / this

/// A socket's receive queue from which on its process counts as not reading, if it is as full in the next snapshot.
inline constexpr uint32_t kUnreadBytes = 1;

}  // namespace stalltrace::autopsy
