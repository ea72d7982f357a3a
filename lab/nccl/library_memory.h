// SPDX-License-Identifier: Apache-2.0
// What NCCL 2.28.9 holds of a communicator in its memory, with NCCL's sizes and offsets (struct ncclComm of its
// src/include/comm.h, as gcc lays it out on x86-64). Debuggers and tools that look for NCCL's communicators in a
// process find this one's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "operation.h"

namespace lab::nccl {

/// The first member of ncclComm. What is not named here is never written, as most of it in NCCL.
class LibraryMemory {
 public:
  static constexpr uint64_t kMagic = 0x0280028002800280;

  LibraryMemory() {}  // NOLINT: what is not initialised is not written
  LibraryMemory(const LibraryMemory&) = delete;
  LibraryMemory& operator=(const LibraryMemory&) = delete;

  /// The communicator can be used.
  void begin(uint64_t hash, int rank, int nranks, int device);
  /// It is about to be freed.
  void end();
  [[nodiscard]] bool is_valid() const { return start_magic_ == kMagic && end_magic_ == kMagic; }
  /// The operation is launched. Sends and Recvs are not counted.
  void count(Function function);

 private:
  uint64_t start_magic_ = 0;
  std::array<std::byte, 1'066'176> channels_and_graphs_;
  uint64_t hash_ = 0;
  int rank_ = 0;
  int nranks_ = 0;
  int device_ = 0;
  std::array<std::byte, 9'524> more_;
  std::array<uint64_t, 5> sequence_numbers_{};
  std::array<std::byte, 7'192> rest_;
  uint64_t end_magic_ = 0;
};

}  // namespace lab::nccl
