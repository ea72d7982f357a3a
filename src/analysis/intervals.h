// SPDX-License-Identifier: Apache-2.0
// Time as sets of intervals. Lost time is always the length of a union: asynchronous collectives overlap, and
// a sum would count one wait many times.
#pragma once

#include <cstdint>
#include <vector>

#include "model/time_range.h"

namespace stalltrace::analysis {

using Interval = TimeRange;

/// The part of time that is in both; of length 0 where none is.
Interval intersect(Interval a, Interval b);

/// Disjoint intervals in time order.
class IntervalSet {
 public:
  IntervalSet() = default;
  /// Sorts and joins; empty intervals vanish.
  explicit IntervalSet(std::vector<Interval> intervals);

  [[nodiscard]] const std::vector<Interval>& intervals() const& { return intervals_; }
  const std::vector<Interval>& intervals() const&& = delete;  // a loop over a temporary's would outlive it
  [[nodiscard]] bool empty() const { return intervals_.empty(); }
  [[nodiscard]] int64_t total_ns() const;
  /// How much of `window` the set covers.
  [[nodiscard]] int64_t covered_ns(Interval window) const;
  /// The parts of the set inside `window`, appended to `out`.
  void clip(Interval window, std::vector<Interval>& out) const;

 private:
  [[nodiscard]] std::vector<Interval>::const_iterator first_reaching(int64_t time_ns) const;
  std::vector<Interval> intervals_;
};

}  // namespace stalltrace::analysis
