// SPDX-License-Identifier: Apache-2.0
#include "export/tracks/selection.h"

#include <algorithm>
#include <limits>

namespace stalltrace::trace_export {
namespace {

constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();

/// Disjoint and ascending.
std::vector<TimeRange> joined(std::vector<TimeRange> ranges) {
  std::erase_if(ranges, [](const TimeRange& range) { return range.from_ns >= range.to_ns; });
  std::ranges::sort(ranges, {}, &TimeRange::from_ns);
  std::vector<TimeRange> result;
  for (const TimeRange& range : ranges) {
    if (!result.empty() && range.from_ns <= result.back().to_ns) {
      result.back().to_ns = std::max(result.back().to_ns, range.to_ns);
    } else {
      result.push_back(range);
    }
  }
  return result;
}

}  // namespace

Selection::Selection(std::vector<TimeRange> ranges, std::span<const int32_t> ranks, const CommonClock& clock)
    : clock_(clock), ranges_(joined(std::move(ranges))), ranks_(ranks.begin(), ranks.end()) {
  const int64_t margin = clock.largest_shift_ns();
  std::vector<TimeRange> wide;
  for (const TimeRange& range : ranges_) {
    wide.push_back({range.from_ns < kFirst + margin ? kFirst : range.from_ns - margin,
                    range.to_ns > kForever - margin ? kForever : range.to_ns + margin});
  }
  read_ = joined(std::move(wide));
  std::ranges::sort(ranks_);
  ranks_.erase(std::unique(ranks_.begin(), ranks_.end()), ranks_.end());
}

bool Selection::has(int64_t begin_ns, int64_t end_ns) const {
  // The last range that begins no later than the interval's end is the one that ends last.
  const auto after = std::ranges::upper_bound(ranges_, end_ns, {}, &TimeRange::from_ns);
  return after != ranges_.begin() && begin_ns < std::prev(after)->to_ns;
}

bool Selection::has_rank(std::optional<int32_t> rank) const {
  return ranks_.empty() || (rank && std::ranges::binary_search(ranks_, *rank));
}

}  // namespace stalltrace::trace_export
