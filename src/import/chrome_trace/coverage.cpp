// SPDX-License-Identifier: Apache-2.0
#include "import/chrome_trace/coverage.h"

#include <algorithm>

namespace stalltrace::import {

Coverage::Coverage(const std::vector<TimeRange>& intervals) {
  for (const TimeRange& one : intervals) {
    if (one.to_ns <= one.from_ns) {
      continue;
    }
    if (!parts_.empty() && one.from_ns <= parts_.back().to_ns) {
      parts_.back().to_ns = std::max(parts_.back().to_ns, one.to_ns);
    } else {
      parts_.push_back(one);
    }
  }
  sums_.reserve(parts_.size());
  int64_t sum = 0;
  for (const TimeRange& part : parts_) {
    sums_.push_back(sum);
    sum += part.to_ns - part.from_ns;
  }
}

Coverage Coverage::both(const Coverage& other) const {
  std::vector<TimeRange> shared;
  auto mine = parts_.begin();
  auto theirs = other.parts_.begin();
  while (mine != parts_.end() && theirs != other.parts_.end()) {
    const TimeRange part{std::max(mine->from_ns, theirs->from_ns), std::min(mine->to_ns, theirs->to_ns)};
    if (part.from_ns < part.to_ns) {
      shared.push_back(part);
    }
    mine->to_ns < theirs->to_ns ? ++mine : ++theirs;
  }
  return Coverage(shared);
}

Coverage Coverage::either(const Coverage& other) const {
  std::vector<TimeRange> all;
  all.reserve(parts_.size() + other.parts_.size());
  std::ranges::merge(parts_, other.parts_, std::back_inserter(all), {}, &TimeRange::from_ns, &TimeRange::from_ns);
  return Coverage(all);
}

int64_t Coverage::before_ns(int64_t time_ns) const {
  const auto after = std::ranges::upper_bound(parts_, time_ns, {}, &TimeRange::from_ns);
  if (after == parts_.begin()) {
    return 0;
  }
  const auto at = static_cast<size_t>(after - parts_.begin()) - 1;
  return sums_[at] + std::min(time_ns, parts_[at].to_ns) - parts_[at].from_ns;
}

int64_t Coverage::covered_ns(int64_t begin_ns, int64_t end_ns) const {
  return end_ns > begin_ns ? before_ns(end_ns) - before_ns(begin_ns) : 0;
}

}  // namespace stalltrace::import
