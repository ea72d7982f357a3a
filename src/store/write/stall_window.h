// SPDX-License-Identifier: Apache-2.0
// What pruning must keep: the times around collectives that took much longer than their like. A rough and cheap
// relative of analysis/, which a recording cannot wait for: it errs on the side of keeping. Internal to store/.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "model/events.h"
#include "model/time_range.h"

namespace stalltrace::store {

class StallWindows {
 public:
  /// A collective as it is stored; open ones are ignored until they end.
  void note(const Collective& row);
  /// Disjoint, in the order of time.
  [[nodiscard]] const std::vector<TimeRange>& windows() const { return windows_; }

 private:
  static constexpr size_t kRemembered = 15;
  /// The last durations of calls of one communicator, operation and size.
  struct Like {
    std::array<int64_t, kRemembered> durations_ns{};
    uint64_t seen = 0;
  };

  void add(TimeRange window);

  std::unordered_map<uint64_t, Like> likes_;
  std::vector<TimeRange> windows_;
};

}  // namespace stalltrace::store
