// SPDX-License-Identifier: Apache-2.0
// The only type for time intervals. All times are UTC nanoseconds.
#pragma once

#include <cstdint>
#include <limits>

namespace stalltrace {

/// The end of an interval that has not ended. Larger than every time, therefore never an operand of an addition.
inline constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
/// An end that is not known, where margins are added to it.
inline constexpr int64_t kFarFutureNs = kForever / 2;

/// Half-open: [from_ns, to_ns). By default all of time.
struct TimeRange {
  int64_t from_ns = std::numeric_limits<int64_t>::min();
  int64_t to_ns = kForever;

  [[nodiscard]] bool contains(int64_t time_ns) const { return time_ns >= from_ns && time_ns < to_ns; }
  /// 0 if to_ns is not after from_ns. Only for ranges with two known ends.
  [[nodiscard]] int64_t length() const { return to_ns > from_ns ? to_ns - from_ns : 0; }
  bool operator==(const TimeRange&) const = default;
};

}  // namespace stalltrace
