// SPDX-License-Identifier: Apache-2.0
#include "import/chrome_trace/coverage.h"

#include <algorithm>

namespace stalltrace::import {

Coverage::Coverage(const std::vector<TraceInterval>& intervals) {
  for (const TraceInterval& one : intervals) {
    if (one.end_ns <= one.begin_ns) {
      continue;
    }
    if (!parts_.empty() && one.begin_ns <= parts_.back().end_ns) {
      parts_.back().end_ns = std::max(parts_.back().end_ns, one.end_ns);
    } else {
      parts_.push_back(one);
    }
  }
  sums_.reserve(parts_.size());
  int64_t sum = 0;
  for (const TraceInterval& part : parts_) {
    sums_.push_back(sum);
    sum += part.end_ns - part.begin_ns;
  }
}

Coverage Coverage::both(const Coverage& other) const {
  std::vector<TraceInterval> shared;
  auto mine = parts_.begin();
  auto theirs = other.parts_.begin();
  while (mine != parts_.end() && theirs != other.parts_.end()) {
    const TraceInterval part{std::max(mine->begin_ns, theirs->begin_ns), std::min(mine->end_ns, theirs->end_ns)};
    if (part.begin_ns < part.end_ns) {
      shared.push_back(part);
    }
    mine->end_ns < theirs->end_ns ? ++mine : ++theirs;
  }
  return Coverage(shared);
}

Coverage Coverage::either(const Coverage& other) const {
  std::vector<TraceInterval> all;
  all.reserve(parts_.size() + other.parts_.size());
  std::ranges::merge(parts_, other.parts_, std::back_inserter(all), {}, &TraceInterval::begin_ns,
                     &TraceInterval::begin_ns);
  return Coverage(all);
}

int64_t Coverage::before_ns(int64_t time_ns) const {
  const auto after = std::ranges::upper_bound(parts_, time_ns, {}, &TraceInterval::begin_ns);
  if (after == parts_.begin()) {
    return 0;
  }
  const auto at = static_cast<size_t>(after - parts_.begin()) - 1;
  return sums_[at] + std::min(time_ns, parts_[at].end_ns) - parts_[at].begin_ns;
}

int64_t Coverage::covered_ns(int64_t begin_ns, int64_t end_ns) const {
  return end_ns > begin_ns ? before_ns(end_ns) - before_ns(begin_ns) : 0;
}

}  // namespace stalltrace::import
