// SPDX-License-Identifier: Apache-2.0
#include "analysis/evidence/row_budget.h"

#include <algorithm>

#include "base/clock.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kSliceNs = kNsPerSecond;
constexpr size_t kMostSlices = 1 << 20;  // the last one holds what lies behind them

}  // namespace

RowBudget::RowBudget(const IntervalSet& windows, int64_t capacity) : capacity_(capacity) {
  size_t slices = 0;
  for (const Interval& window : windows.intervals()) {
    windows_.push_back({window, slices});
    slices = std::min(kMostSlices, slices + static_cast<size_t>(window.length() / kSliceNs) + 1);
  }
  counts_.resize(slices + 1);
}

size_t RowBudget::slice_of(int64_t time_ns) const {
  const auto window =
      std::partition_point(windows_.begin(), windows_.end(), [&](const Window& w) { return w.time.to_ns <= time_ns; });
  if (window == windows_.end()) {
    return counts_.size() - 1;
  }
  const int64_t into_ns = std::max<int64_t>(0, time_ns - window->time.from_ns);
  return std::min(counts_.size() - 1, window->first_slice + static_cast<size_t>(into_ns / kSliceNs));
}

bool RowBudget::room(int64_t time_ns) {
  int64_t& count = counts_[slice_of(time_ns)];
  ++count;
  const bool fits = share_ < 0 ? ++total_ <= capacity_ : count <= share_;
  kept_ += fits ? 1 : 0;
  return fits;
}

/// The greatest share with which all slices together fit.
int64_t RowBudget::fair_share() const {
  std::vector<int64_t> counts = counts_;
  std::sort(counts.begin(), counts.end());
  int64_t left = capacity_;
  for (size_t i = 0; i < counts.size(); ++i) {
    const int64_t share = left / static_cast<int64_t>(counts.size() - i);
    if (counts[i] > share) {
      return share;
    }
    left -= counts[i];
  }
  return capacity_;
}

bool RowBudget::again() {
  if (share_ >= 0 || total_ <= capacity_) {
    return false;
  }
  share_ = fair_share();
  kept_ = 0;
  std::fill(counts_.begin(), counts_.end(), 0);
  return true;
}

}  // namespace stalltrace::analysis
