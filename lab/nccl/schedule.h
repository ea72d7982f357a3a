// SPDX-License-Identifier: Apache-2.0
// One rank's sends and receives for an operation, as plain data: an ordered list of sends over one connection, an
// ordered list of receives over another, and the dependencies between them. All collectives are schedules run by the
// same Transfer; slices keep reduction and both directions of the network busy together.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace lab::nccl {

inline constexpr size_t kSliceBytes = 128U << 10U;      // the unit of sending, receiving and reducing
inline constexpr size_t kChunkBytes = 4 * kSliceBytes;  // one rank's share of the ring at a time
inline constexpr size_t kWindowSlices = 8;              // partial results passing through a rank

/// Space for data that passes through a rank. One per communicator, used by one schedule at a time.
using Scratch = std::array<std::array<std::byte, kSliceBytes>, kWindowSlices>;

struct Copy {
  const std::byte* from;
  std::byte* to;
  size_t bytes;
};

struct SendStep {
  const std::byte* from;
  size_t bytes;
  size_t after_recvs;  // number of receives that must be complete first
};

struct RecvStep {
  std::byte* into;
  size_t bytes;
  size_t after_sends;    // number of sends that must be complete first, since `into` was their source
  const std::byte* own;  // this rank's contribution, or null where nothing is reduced
  std::byte* result;     // own (op) into, where something is
  bool last;             // all other ranks' contributions are included
};

struct Schedule {
  std::vector<Copy> copies;  // within this rank, before everything else
  std::vector<SendStep> sends;
  std::vector<RecvStep> recvs;
};

}  // namespace lab::nccl
