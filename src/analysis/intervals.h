// SPDX-License-Identifier: Apache-2.0
// Sets of time intervals. Lost time is always the length of a union: asynchronous collectives overlap, and a sum would
// count one wait many times.
#pragma once

#include <cstdint>
#include <vector>

#include "model/time_range.h"

namespace stalltrace::analysis {

using Interval = TimeRange;

/// The common part of both; zero length if they are disjoint.
Interval intersect(Interval a, Interval b);

/// Disjoint intervals in time order.
class IntervalSet {
 public:
  IntervalSet() = default;
  /// Sorts and joins; empty intervals are removed.
  explicit IntervalSet(std::vector<Interval> intervals);

  [[nodiscard]] const std::vector<Interval>& intervals() const& { return intervals_; }
  const std::vector<Interval>& intervals() const&& = delete;  // a loop over a temporary's would outlive it
  [[nodiscard]] bool empty() const { return intervals_.empty(); }
  [[nodiscard]] int64_t total_ns() const;
  /// The time of `window` that the set covers.
  [[nodiscard]] int64_t covered_ns(Interval window) const;
  /// Appends the parts of the set inside `window` to `out`.
  void clip(Interval window, std::vector<Interval>& out) const;

 private:
  [[nodiscard]] std::vector<Interval>::const_iterator first_reaching(int64_t time_ns) const;
  std::vector<Interval> intervals_;
};

}  // namespace stalltrace::analysis
