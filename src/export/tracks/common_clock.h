// SPDX-License-Identifier: Apache-2.0
// Times of all nodes on one clock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "model/node_clock.h"
#include "model/time_range.h"

namespace stalltrace::trace_export {

/// No time of a trace is later: the year 2116. A difference of two such times does not overflow.
inline constexpr int64_t kLatestNs = int64_t{1} << 62;

/// 36 years: more than the analysis moves a clock.
inline constexpr int64_t kMostShiftNs = int64_t{1} << 60;

class CommonClock {
 public:
  explicit CommonClock(std::span<const NodeClock> clocks) {
    for (const NodeClock& clock : clocks) {
      const int64_t shift = std::clamp(clock.shift_ns, -kMostShiftNs, kMostShiftNs);
      shifts_[clock.node_id] = shift;
      largest_ = std::max(largest_, shift < 0 ? -shift : shift);
    }
  }

  /// Within [0, kLatestNs], whatever the time is; kForever stays kForever.
  [[nodiscard]] int64_t at(NodeId node, int64_t time_ns) const {
    if (time_ns == kForever) {
      return kForever;
    }
    const auto found = shifts_.find(node);
    const int64_t shift = found == shifts_.end() ? 0 : found->second;
    return std::clamp<int64_t>(std::clamp<int64_t>(time_ns, 0, kLatestNs) + shift, 0, kLatestNs);
  }
  [[nodiscard]] int64_t largest_shift_ns() const { return largest_; }

 private:
  std::unordered_map<NodeId, int64_t> shifts_;
  int64_t largest_ = 0;
};

/// `begin_ns` and a duration, which may be any number, as an end within [-1, kLatestNs].
inline int64_t end_after(int64_t begin_ns, int64_t duration_ns) {
  int64_t end = 0;
  if (__builtin_add_overflow(begin_ns, duration_ns, &end)) {
    return duration_ns < 0 ? -1 : kLatestNs;
  }
  return std::clamp<int64_t>(end, -1, kLatestNs);
}

}  // namespace stalltrace::trace_export
