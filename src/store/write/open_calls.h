// SPDX-License-Identifier: Apache-2.0
// The collectives that have not ended. Pruning keeps them, and what is known of their processes: how a rank ended is
// the evidence of a hang. Internal to store/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "model/events.h"

namespace stalltrace::store {

struct OpenCall {
  int32_t pid = 0;
  int64_t timestamp_ns = 0;

  friend auto operator<=>(const OpenCall&, const OpenCall&) = default;
};

class OpenCalls {
 public:
  /// A stored collective, or its end. Of a process the newest 64 are kept, of processes the 4,096 that called last.
  void note(const Collective& row);
  /// By process, then in time order.
  [[nodiscard]] std::vector<OpenCall> sorted() const;

 private:
  // They bound memory. A rank has a few calls that are open; the ends of others may never be reported.
  static constexpr size_t kMostOfProcess = 64;
  static constexpr size_t kMostProcesses = 4096;
  using Calls = std::map<EventId, int64_t>;  // their times; ids ascend with time

  void drop_process_called_longest_ago();

  std::unordered_map<int32_t, Calls> calls_;  // by process; not empty
};

}  // namespace stalltrace::store
