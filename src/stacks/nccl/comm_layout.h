// SPDX-License-Identifier: Apache-2.0
// Where NCCL has a communicator's identity and its counters of calls, in `struct ncclComm` of its sources
// (src/include/comm.h). The struct is not public, and changes with most versions: each row has the offsets of some.
// They are those that gcc 12 gives for the headers of each release with CUDA 13.0's, on x86-64; scripts/nccl_layouts.py
// prints them. Releases before 2.21.5 have no magic word to find a communicator by.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace stalltrace::stacks {

/// The first and the last word of a communicator that is in use; NCCL clears both before it frees one.
inline constexpr uint64_t kNcclMagic = 0x0280028002800280;

/// What is counted at CommLayout::counters: calls that were launched since the communicator was made, except those that
/// a CUDA graph captured.
enum class CommCounters : uint8_t {
  kNone,         // nothing that ranks have alike
  kCollectives,  // a word: all collectives together (`collOpCount`)
  kOperations,   // a word per operation, in the order of kCountedOperations (`seqNumber`)
};

/// NCCL's names of operations, in the order of ncclFunc_t. Sends and Recvs are not counted.
inline constexpr std::array<std::string_view, 5> kCountedOperations{"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                                                    "AllReduce"};

struct CommLayout {
  std::string_view versions;  // of NCCL
  uint32_t identity = 0;      // offset of: commHash (8 bytes), rank, nRanks, cudaDev (4 bytes each)
  CommCounters counted = CommCounters::kNone;
  uint32_t counters = 0;  // offset
  uint32_t end = 0;       // offset of the last word; no two rows have the same

  /// At `counters`.
  [[nodiscard]] constexpr size_t counter_words() const {
    return counted == CommCounters::kNone ? 0 : counted == CommCounters::kCollectives ? 1 : kCountedOperations.size();
  }
};

/// More calls than a job makes: what is counted there is something else.
inline constexpr uint64_t kMostLaunches = uint64_t{1} << 48;
/// Numbers of ranks beyond this are not believed.
inline constexpr int32_t kMostRanks = 1 << 20;

/// Whether a communicator can have these; memory that is none mostly has not.
constexpr bool is_possible_identity(uint64_t hash, int32_t rank, int32_t nranks) {
  return hash != 0 && nranks > 0 && nranks <= kMostRanks && rank >= 0 && rank < nranks;
}

inline constexpr size_t kMostCommLayouts = 32;

/// At most kMostCommLayouts.
std::span<const CommLayout> comm_layouts();

}  // namespace stalltrace::stacks
