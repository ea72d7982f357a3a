// SPDX-License-Identifier: Apache-2.0
// The collectives that are tested, and what their bandwidth is by the definitions of nccl-tests (NVIDIA/nccl-tests,
// doc/PERFORMANCE.md): algbw is the size by the time; busbw is what the slowest link carries for it, whatever the
// number of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stalltrace::preflight {

/// What of its size an operation brings over each link.
enum class BusShare : uint8_t {
  kTwiceOthers,  // 2 (n - 1) / n
  kOthers,       // (n - 1) / n
  kWhole,        // 1
};

struct CollectiveOperation {
  std::string_view name;  // as plugin/collectives knows it
  BusShare share;
};
inline constexpr size_t kAllReduce = 0;  // its index
std::span<const CollectiveOperation> collective_operations();
std::optional<size_t> find_operation(std::string_view name);

/// In GB/s (10^9 bytes). 0 for a time of 0.
double algbw(int64_t bytes, int64_t duration_ns);
double busbw(size_t operation, int64_t ranks, int64_t bytes, int64_t duration_ns);

/// From 8 bytes, each four times the one before, and `max_bytes` as the last.
std::vector<int64_t> collective_sizes(int64_t max_bytes);

/// "AllReduce of 64 MiB"
std::string name_of_call(size_t operation, int64_t bytes);
/// Of the number that ncclGetVersion gives: 22809 is "2.28.9" (before 2.9 with one digit less: 2708 is "2.7.8").
std::string nccl_version_text(int64_t version);

}  // namespace stalltrace::preflight
