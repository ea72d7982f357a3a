// SPDX-License-Identifier: Apache-2.0
// What one rank sends and receives for an operation, as plain data: an ordered list of sends over one connection, an
// ordered list of receives over another, and which of one list waits for which of the other. All collectives are
// different schedules, run by the same Transfer; slices keep reduction and both directions of the wire busy at once.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace lab::nccl {

inline constexpr size_t kSliceBytes = 128U << 10U;      // the unit of sending, receiving and reducing
inline constexpr size_t kChunkBytes = 4 * kSliceBytes;  // one rank's share of the ring at a time
inline constexpr size_t kWindowSlices = 8;              // partial results on their way through a rank

/// Room for what passes through a rank without staying there. One per communicator, used by one schedule at a time.
using Scratch = std::array<std::array<std::byte, kSliceBytes>, kWindowSlices>;

struct Copy {
  const std::byte* from;
  std::byte* to;
  size_t bytes;
};

struct SendStep {
  const std::byte* from;
  size_t bytes;
  size_t after_recvs;  // so many receives must be complete first
};

struct RecvStep {
  std::byte* into;
  size_t bytes;
  size_t after_sends;    // so many sends must be complete first: `into` was their source
  const std::byte* own;  // this rank's contribution, or null where nothing is reduced
  std::byte* result;     // own (op) into, where something is
  bool last;             // no other rank's contribution is missing now
};

struct Schedule {
  std::vector<Copy> copies;  // within this rank, first of all
  std::vector<SendStep> sends;
  std::vector<RecvStep> recvs;
};

}  // namespace lab::nccl
