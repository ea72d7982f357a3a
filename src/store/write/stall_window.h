// SPDX-License-Identifier: Apache-2.0
// The times that pruning must keep: those around collectives that took much longer than comparable ones. A rough and
// cheap version of analysis/, which a running recording can't use: in doubt it keeps rows. Internal to store/.
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
  /// A stored collective; open ones are ignored until they end.
  void note(const Collective& row);
  /// Disjoint, in time order.
  [[nodiscard]] const std::vector<TimeRange>& windows() const { return windows_; }

 private:
  static constexpr size_t kRemembered = 15;
  /// The last durations of calls with one communicator, operation and size.
  struct Like {
    std::array<int64_t, kRemembered> durations_ns{};
    uint64_t seen = 0;
  };

  void add(TimeRange window);

  std::unordered_map<uint64_t, Like> likes_;
  std::vector<TimeRange> windows_;
};

}  // namespace stalltrace::store
