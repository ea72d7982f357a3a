// SPDX-License-Identifier: Apache-2.0
#include "analysis/evidence/reads/row_budget.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/hash.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kSliceNs = kNsPerSecond;
constexpr size_t kMostSlices = 1 << 20;  // the last one holds what lies behind them
constexpr int64_t kLeastShare = 8;       // fewer rows of a node's second show nothing
constexpr size_t kBlock = 8;             // slices that are kept or left out together: a stall has several
constexpr int kNodeBits = 32;            // of a key
constexpr uint64_t kNodeMask = (uint64_t{1} << kNodeBits) - 1;

/// Spread evenly, whatever the rhythm of the stalls.
bool is_kept(size_t slice, uint64_t every) { return splitmix64_fold(kSplitmixSeed, slice / kBlock) % every == 0; }

}  // namespace

RowBudget::RowBudget(const IntervalSet& windows, int64_t capacity, size_t most_counts)
    : capacity_(capacity), most_counts_(most_counts) {
  for (const Interval& window : windows.intervals()) {
    windows_.push_back({window, slices_});
    slices_ = std::min(kMostSlices, slices_ + static_cast<size_t>(window.length() / kSliceNs) + 1);
  }
}

size_t RowBudget::slice_of(int64_t time_ns) const {
  const auto window =
      std::partition_point(windows_.begin(), windows_.end(), [&](const Window& w) { return w.time.to_ns <= time_ns; });
  if (window == windows_.end()) {
    return slices_;
  }
  const int64_t into_ns = std::max<int64_t>(0, time_ns - window->time.from_ns);
  return std::min(slices_, window->first_slice + static_cast<size_t>(into_ns / kSliceNs));
}

bool RowBudget::room(NodeId node, int64_t time_ns) {
  const size_t slice = slice_of(time_ns) >> joined_;
  const int64_t count = ++counts_[static_cast<uint64_t>(slice) << kNodeBits | node];
  while (counts_.size() > most_counts_ && slices_ >> joined_ > 1) {
    join_slices();
  }
  const bool fits = share_ < 0 ? ++total_ <= capacity_ : count <= share_ && kept_ < capacity_ && is_kept(slice, every_);
  kept_ += fits ? 1 : 0;
  return fits;
}

/// Two slices become one.
void RowBudget::join_slices() {
  ++joined_;
  std::unordered_map<uint64_t, int64_t> joined;
  for (const auto& [key, count] : counts_) {
    joined[key >> kNodeBits >> 1U << kNodeBits | (key & kNodeMask)] += count;
  }
  counts_ = std::move(joined);
}

/// The greatest share with which all slices together fit.
int64_t RowBudget::fair_share() const {
  std::vector<int64_t> counts;
  for (const auto& [key, count] : counts_) {
    counts.push_back(count);
  }
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

int64_t RowBudget::rows_of_one_in(uint64_t every) const {
  int64_t rows = 0;
  for (const auto& [key, count] : counts_) {
    rows += is_kept(key >> kNodeBits, every) ? std::min(count, share_) : 0;
  }
  return rows;
}

/// Keeps kLeastShare rows of each node in as many seconds as have room.
void RowBudget::thin_out() {
  share_ = kLeastShare;
  for (int64_t rows = capacity_ + 1; rows > capacity_ && every_ <= slices_ >> joined_;) {
    rows = rows_of_one_in(2 * every_);
    if (rows == 0) {
      return;  // one block alone has more: what comes first in it is kept
    }
    every_ *= 2;
  }
}

bool RowBudget::again() {
  if (share_ >= 0 || total_ <= capacity_) {
    return false;
  }
  share_ = fair_share();
  if (share_ < kLeastShare) {
    thin_out();
  }
  repeat();
  return true;
}

void RowBudget::repeat() {
  total_ = share_ < 0 ? 0 : total_;
  kept_ = 0;
  counts_.clear();
}

}  // namespace stalltrace::analysis
