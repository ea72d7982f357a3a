// SPDX-License-Identifier: Apache-2.0
// What the ranks send, and what each has to get for it: small whole numbers, of which the sum over up to a million
// ranks is exact in a float, in whatever order a library adds them.
#pragma once

#include <cstdint>

namespace stalltrace::collectives {

enum class Operation : uint8_t { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kReduce, kSendRecv };
inline constexpr uint8_t kOperations = 6;

inline constexpr uint32_t kValues = 16;
inline constexpr uint32_t kPerRank = 3;                                // odd: kValues ranks in a row have all values
inline constexpr uint32_t kSumOfValues = kValues * (kValues - 1) / 2;  // of these ranks

/// 0 to 15, different from position to position.
constexpr uint32_t of_position(uint64_t position) { return (static_cast<uint32_t>(position) * 2654435761U) >> 28; }

/// What `rank` has at a position of its buffer.
constexpr float value_of(uint64_t rank, uint64_t position) {
  return static_cast<float>((of_position(position) + kPerRank * static_cast<uint32_t>(rank % kValues)) % kValues);
}

constexpr float sum_of(uint64_t ranks, uint64_t position) {
  uint64_t sum = ranks / kValues * kSumOfValues;
  for (uint64_t rank = 0; rank < ranks % kValues; ++rank) {
    sum += static_cast<uint64_t>(value_of(rank, position));
  }
  return static_cast<float>(sum);
}

/// One call: each rank's count of elements, as the library's function takes it. The root is rank 0; with kSendRecv each
/// rank sends to the next one.
struct Call {
  Operation operation;
  uint64_t ranks;
  uint64_t rank;
  uint64_t count;

  /// How many elements this rank gets.
  [[nodiscard]] constexpr uint64_t results() const {
    return operation == Operation::kAllGather             ? count * ranks
           : operation == Operation::kReduce && rank != 0 ? 0
                                                          : count;
  }
  [[nodiscard]] constexpr float expected(uint64_t position) const {
    switch (operation) {
      case Operation::kAllReduce:
      case Operation::kReduce:
        return sum_of(ranks, position);
      case Operation::kReduceScatter:
        return sum_of(ranks, rank * count + position);
      case Operation::kAllGather:
        return value_of(position / count, position % count);
      case Operation::kBroadcast:
        return value_of(0, position);
      case Operation::kSendRecv:
        return value_of((rank + ranks - 1) % ranks, position);
    }
    return 0;
  }
};

/// The elements of a call of this size: of the sum of all parts, where each rank has one (nccl-tests counts so, too).
constexpr uint64_t count_of_size(Operation operation, uint64_t bytes, uint64_t ranks) {
  const bool parts = operation == Operation::kAllGather || operation == Operation::kReduceScatter;
  const uint64_t count = bytes / sizeof(float) / (parts ? ranks : 1);
  return count == 0 ? 1 : count;
}

}  // namespace stalltrace::collectives
