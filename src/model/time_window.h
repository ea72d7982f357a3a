// SPDX-License-Identifier: Apache-2.0
// The requested part of a recording.
#pragma once

#include <cstdint>
#include <optional>

#include "model/source.h"

namespace stalltrace {

/// A point in time: UTC, or an offset from the zero of a report: the first arrival in its recordings.
struct TimePoint {
  int64_t ns = 0;
  bool from_start = false;

  /// `start_ns`: the first arrival, not before 1970. Saturates at the limits of a time.
  [[nodiscard]] int64_t utc_ns(int64_t start_ns) const {
    return !from_start ? ns : ns > kForever - start_ns ? kForever : start_ns + ns;
  }
};

struct TimeWindow {
  std::optional<TimePoint> from;
  std::optional<TimePoint> to;

  [[nodiscard]] bool empty() const { return !from && !to; }
  /// In UTC; open at an end that was not set.
  [[nodiscard]] TimeRange at(int64_t start_ns) const {
    TimeRange range;
    if (from) {
      range.from_ns = from->utc_ns(start_ns);
    }
    if (to) {
      range.to_ns = to->utc_ns(start_ns);
    }
    return range;
  }
};

}  // namespace stalltrace
