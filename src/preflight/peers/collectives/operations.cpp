// SPDX-License-Identifier: Apache-2.0
#include "preflight/peers/collectives/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace stalltrace::preflight {
namespace {

constexpr std::array kTested{
    CollectiveOperation{"AllReduce", BusShare::kTwiceOthers}, CollectiveOperation{"AllGather", BusShare::kOthers},
    CollectiveOperation{"ReduceScatter", BusShare::kOthers},  CollectiveOperation{"Broadcast", BusShare::kWhole},
    CollectiveOperation{"Reduce", BusShare::kWhole},          CollectiveOperation{"SendRecv", BusShare::kWhole}};
static_assert(kTested[kAllReduce].name == "AllReduce");

constexpr int64_t kSmallestSize = 8;
constexpr int64_t kSizeFactor = 4;

}  // namespace

std::span<const CollectiveOperation> collective_operations() { return kTested; }

std::optional<size_t> find_operation(std::string_view name) {
  const auto found = std::ranges::find(kTested, name, &CollectiveOperation::name);
  return found == kTested.end() ? std::nullopt : std::optional(static_cast<size_t>(found - kTested.begin()));
}

double algbw(int64_t bytes, int64_t duration_ns) {
  return duration_ns > 0 ? static_cast<double>(bytes) / static_cast<double>(duration_ns) : 0;
}

double busbw(size_t operation, int64_t ranks, int64_t bytes, int64_t duration_ns) {
  const auto count = static_cast<double>(std::max<int64_t>(ranks, 1));
  const BusShare share = kTested[operation].share;
  const double others = (count - 1) / count;
  return algbw(bytes, duration_ns) * (share == BusShare::kTwiceOthers ? 2 * others
                                      : share == BusShare::kOthers    ? others
                                                                      : 1);
}

std::vector<int64_t> collective_sizes(int64_t max_bytes) {
  std::vector<int64_t> sizes;
  for (int64_t bytes = kSmallestSize; bytes < max_bytes; bytes *= kSizeFactor) {
    sizes.push_back(bytes);
  }
  sizes.push_back(max_bytes);
  return sizes;
}

std::string name_of_call(size_t operation, int64_t bytes) {
  return fmt::format("{} of {}", kTested[operation].name, format_size(bytes));
}

std::string nccl_version_text(int64_t version) {
  const int64_t major_unit = version >= 10'000 ? 10'000 : 1'000;
  return fmt::format("{}.{}.{}", version / major_unit, version % major_unit / 100, version % 100);
}

}  // namespace stalltrace::preflight
