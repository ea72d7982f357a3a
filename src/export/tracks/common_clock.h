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
      moves_[clock.node_id] = {shift, clock.drift};
      largest_ = std::max(largest_, (shift < 0 ? -shift : shift) + clock.drift.most_ns());
    }
  }

  /// Within [0, kLatestNs], whatever the time is; kForever stays kForever.
  [[nodiscard]] int64_t at(NodeId node, int64_t time_ns) const {
    if (time_ns == kForever) {
      return kForever;
    }
    const int64_t time = std::clamp<int64_t>(time_ns, 0, kLatestNs);
    const auto found = moves_.find(node);
    const int64_t shift = found == moves_.end() ? 0 : found->second.shift_ns + found->second.drift.correction_ns(time);
    return std::clamp<int64_t>(time + shift, 0, kLatestNs);
  }
  [[nodiscard]] int64_t largest_shift_ns() const { return largest_; }

 private:
  struct Move {
    int64_t shift_ns = 0;
    ClockDrift drift;
  };
  std::unordered_map<NodeId, Move> moves_;
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
