// SPDX-License-Identifier: Apache-2.0
// The collectives that have not ended. Pruning keeps them, and what is known of their processes: how a rank ended is
// the evidence of a hang. Internal to store/.
#pragma once

#include <cstddef>
#include <cstdint>
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
  /// A stored collective, or its end.
  void note(const Collective& row);
  /// By process, then in time order.
  [[nodiscard]] std::vector<OpenCall> sorted() const;

 private:
  static constexpr size_t kMost = 65'536;  // bounds memory; a rank has a few

  std::unordered_map<EventId, OpenCall> calls_;
};

}  // namespace stalltrace::store
