// SPDX-License-Identifier: Apache-2.0
// How often the processes of each user are read: reading thousands of files or threads takes time in which
// nothing else is read. Pure; one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

namespace stalltrace::capture {

class ReadingBudget {
 public:
  /// Of the time, what reading one user's processes may take: one part in this many.
  static constexpr int64_t kParts = 10;

  /// `at_once_ns`: what a user may take before its part of the time counts. It comes back at the same rate.
  explicit ReadingBudget(int64_t at_once_ns = 0) : at_once_ns_(at_once_ns) {}

  /// Whether it is time to look at this user's processes again.
  [[nodiscard]] bool is_due(uint32_t user, int64_t now_ns) const {
    const auto next = next_ns_.find(user);
    return next == next_ns_.end() || now_ns >= next->second;
  }
  void was_read(uint32_t user, int64_t began_ns, int64_t ended_ns) {
    if (next_ns_.size() >= kMostUsers) {
      std::erase_if(next_ns_, [&](const auto& entry) { return entry.second <= ended_ns - at_once_ns_ * kParts; });
    }
    int64_t& next_ns = next_ns_.try_emplace(user, began_ns - at_once_ns_ * kParts).first->second;
    next_ns = std::max(next_ns, began_ns - at_once_ns_ * kParts) + (ended_ns - began_ns) * kParts;
  }

 private:
  static constexpr size_t kMostUsers = 1024;
  int64_t at_once_ns_;
  std::map<uint32_t, int64_t> next_ns_;  // CLOCK_MONOTONIC
};

}  // namespace stalltrace::capture
