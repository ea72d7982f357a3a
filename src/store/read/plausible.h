// SPDX-License-Identifier: Apache-2.0
// Checks that the times and sizes of a row are possible. Analysis adds and subtracts them, so numbers of a damaged or
// malicious file that would overflow must not reach it. Internal to store/.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "store/schema/columns.h"

namespace stalltrace::store {

inline constexpr int64_t kLatestTimeNs = 4'000'000'000'000'000'000;  // October 2096; the earliest is 1970
inline constexpr int64_t kLongestNs = int64_t{1} << 53;              // 104 days: a thousand of them can be added
inline constexpr int64_t kMostBytes = int64_t{1} << 53;              // 8 PiB
inline constexpr double kLargestSample = 1e18;

/// The allowed values of a column: [low, low + width].
struct ValueRange {
  int64_t low = 0;
  uint64_t width = ~uint64_t{0};

  [[nodiscard]] bool holds(uint64_t value) const { return value - static_cast<uint64_t>(low) <= width; }
};

constexpr ValueRange range_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::kTime:
      return {0, kLatestTimeNs};
    case ValueKind::kOffset:
      return {-kLatestTimeNs, 2 * static_cast<uint64_t>(kLatestTimeNs)};
    case ValueKind::kDuration:
      return {0, kLongestNs};
    case ValueKind::kBytes:
      return {0, kMostBytes};
    case ValueKind::kOther:
      break;
  }
  return {};
}

template <typename T>
bool holds(const ValueRange& range, const T& value) {
  if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, uint64_t>) {
    return range.holds(static_cast<uint64_t>(value));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::fabs(value) <= kLargestSample;
  } else {
    return true;
  }
}
template <typename T>
bool holds(const ValueRange& range, const std::optional<T>& value) {
  return !value || holds(range, *value);
}
template <typename T>
bool holds(const ValueRange& range, const OrNull<T>& field) {
  return holds(range, field.value);
}
template <typename T>
bool holds(const ValueRange& range, const OrNullUnless<T>& field) {
  return holds(range, field.value);
}

/// Checked for every row that is read. Flattened: otherwise each column is a call (batch.h has what it is worth).
template <typename T>
[[gnu::flatten]] bool is_plausible(const T& row) {
  bool plausible = true;
  each_column(row, [&](Column column, const auto& field) { plausible &= holds(range_of(column.kind()), field); });
  return plausible;
}

}  // namespace stalltrace::store
