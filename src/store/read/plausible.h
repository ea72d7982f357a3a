// SPDX-License-Identifier: Apache-2.0
// Whether the times and sizes of a row can be true. Analysis adds and subtracts them: a file that was damaged or made
// to harm must not reach it with numbers that overflow. Internal to store/.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

#include "store/schema/columns.h"

namespace stalltrace::store {

inline constexpr int64_t kLatestTimeNs = 4'000'000'000'000'000'000;  // October 2096; the earliest is 1970
inline constexpr int64_t kLongestNs = int64_t{1} << 53;              // 104 days: a thousand of them can be added
inline constexpr int64_t kMostBytes = int64_t{1} << 53;              // 8 PiB
inline constexpr double kLargestSample = 1e18;

/// Of a column, by its name.
enum class ValueKind : uint8_t { kTime, kOffset, kDuration, kBytes, kOther };

constexpr ValueKind kind_of_column(std::string_view name) {
  if (name == "clock_offset_ns") {
    return ValueKind::kOffset;
  }
  if (name == "timestamp_ns" || name == "called_ns" || name == "start_ns" || name == "exit_ns" ||
      name == "started_ns" || name == "ended_ns" || name == "created_ns" || name == "destroyed_ns" ||
      name == "opened_ns" || name == "closed_ns") {
    return ValueKind::kTime;
  }
  if (name.ends_with("_ns")) {
    return ValueKind::kDuration;
  }
  return name == "bytes" ? ValueKind::kBytes : ValueKind::kOther;
}

inline bool in_range(ValueKind kind, int64_t value) {
  switch (kind) {
    case ValueKind::kTime:
      return value >= 0 && value <= kLatestTimeNs;
    case ValueKind::kOffset:
      return value >= -kLatestTimeNs && value <= kLatestTimeNs;
    case ValueKind::kDuration:
      return value >= 0 && value <= kLongestNs;
    case ValueKind::kBytes:
      return value >= 0 && value <= kMostBytes;
    case ValueKind::kOther:
      return true;
  }
  return true;
}
inline bool in_range(ValueKind kind, uint64_t value) {
  return kind == ValueKind::kOther || in_range(kind, static_cast<int64_t>(value));
}
inline bool in_range(ValueKind /*kind*/, double value) { return std::fabs(value) <= kLargestSample; }
template <typename T>
bool in_range(ValueKind /*kind*/, const T& /*value*/) {
  return true;
}
template <typename T>
bool in_range(ValueKind kind, const std::optional<T>& value) {
  return !value || in_range(kind, *value);
}
template <typename T>
bool in_range(ValueKind kind, const OrNull<T>& field) {
  return in_range(kind, field.value);
}
template <typename T>
bool in_range(ValueKind kind, const OrNullUnless<T>& field) {
  return in_range(kind, field.value);
}

template <typename T>
bool is_plausible(const T& row) {
  bool plausible = true;
  each_column(
      row, [&plausible](const char* name, const auto& field)
               __attribute__((always_inline)) { plausible = plausible && in_range(kind_of_column(name), field); });
  return plausible;
}

}  // namespace stalltrace::store
