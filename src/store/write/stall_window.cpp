// SPDX-License-Identifier: Apache-2.0
#include "store/write/stall_window.h"

#include <algorithm>

#include "base/clock.h"
#include "base/hash.h"

namespace stalltrace::store {
namespace {

constexpr uint64_t kFewestLike = 5;               // fewer give no reliable median
constexpr int64_t kTimesMedian = 3;               // far outside the spread of a healthy run
constexpr int64_t kFloorNs = 10 * kNsPerMs;       // shorter stalls are not worth gigabytes
constexpr int64_t kContextNs = 2 * kNsPerSecond;  // before and after the stall
constexpr size_t kMostLikes = 65'536;             // a job has some hundred; bounds memory

}  // namespace

void StallWindows::note(const Collective& row) {
  if (!row.duration_ns || !moves_data(row.op)) {
    return;
  }
  uint64_t key = splitmix64_fold(row.comm_id_hash, static_cast<uint64_t>(row.op));
  key = splitmix64_fold(key, static_cast<uint64_t>(row.bytes));
  if (likes_.size() >= kMostLikes && !likes_.contains(key)) {
    likes_.clear();
  }
  Like& like = likes_[key];
  if (like.seen >= kFewestLike && *row.duration_ns > kFloorNs) {
    auto sorted = like.durations_ns;
    const auto count = static_cast<std::ptrdiff_t>(std::min<uint64_t>(like.seen, kRemembered));
    std::nth_element(sorted.begin(), sorted.begin() + count / 2, sorted.begin() + count);
    const int64_t median_ns = sorted[static_cast<size_t>(count / 2)];
    if (*row.duration_ns > kTimesMedian * median_ns + kFloorNs) {
      add({row.timestamp_ns - kContextNs, row.timestamp_ns + *row.duration_ns + kContextNs});
    }
  }
  like.durations_ns[like.seen++ % kRemembered] = *row.duration_ns;
}

void StallWindows::add(TimeRange window) {
  const auto touches = [&](const TimeRange& other) {
    return other.from_ns <= window.to_ns && other.to_ns >= window.from_ns;
  };
  for (const TimeRange& other : windows_) {
    if (touches(other)) {
      window = {std::min(window.from_ns, other.from_ns), std::max(window.to_ns, other.to_ns)};
    }
  }
  std::erase_if(windows_, touches);
  const auto at = std::lower_bound(windows_.begin(), windows_.end(), window,
                                   [](const TimeRange& a, const TimeRange& b) { return a.from_ns < b.from_ns; });
  windows_.insert(at, window);
}

}  // namespace stalltrace::store
