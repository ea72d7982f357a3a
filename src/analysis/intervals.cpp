// SPDX-License-Identifier: Apache-2.0
#include "analysis/intervals.h"

#include <algorithm>

namespace stalltrace::analysis {

Interval intersect(Interval a, Interval b) { return {std::max(a.from_ns, b.from_ns), std::min(a.to_ns, b.to_ns)}; }

IntervalSet::IntervalSet(std::vector<Interval> intervals) : intervals_(std::move(intervals)) {
  std::erase_if(intervals_, [](const Interval& interval) { return interval.length() == 0; });
  std::sort(intervals_.begin(), intervals_.end(),
            [](const Interval& a, const Interval& b) { return a.from_ns < b.from_ns; });
  size_t kept = 0;
  for (size_t i = 1; i < intervals_.size(); ++i) {
    if (intervals_[i].from_ns <= intervals_[kept].to_ns) {
      intervals_[kept].to_ns = std::max(intervals_[kept].to_ns, intervals_[i].to_ns);
    } else {
      intervals_[++kept] = intervals_[i];
    }
  }
  intervals_.resize(intervals_.empty() ? 0 : kept + 1);
}

int64_t IntervalSet::total_ns() const {
  int64_t total = 0;
  for (const Interval& interval : intervals_) {
    total += interval.length();
  }
  return total;
}

std::vector<Interval>::const_iterator IntervalSet::first_reaching(int64_t time_ns) const {
  return std::partition_point(intervals_.begin(), intervals_.end(),
                              [&](const Interval& interval) { return interval.to_ns <= time_ns; });
}

int64_t IntervalSet::covered_ns(Interval window) const {
  int64_t covered = 0;
  for (auto it = first_reaching(window.from_ns); it != intervals_.end() && it->from_ns < window.to_ns; ++it) {
    covered += intersect(*it, window).length();
  }
  return covered;
}

void IntervalSet::clip(Interval window, std::vector<Interval>& out) const {
  for (auto it = first_reaching(window.from_ns); it != intervals_.end() && it->from_ns < window.to_ns; ++it) {
    out.push_back(intersect(*it, window));
  }
}

}  // namespace stalltrace::analysis
