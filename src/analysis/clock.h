// SPDX-License-Identifier: Apache-2.0
// One clock for all nodes: the first node's, or between hosts that of the first one with a collective.
//
// Nodes with one boot id share CLOCK_MONOTONIC; their times differ by the difference of their clock offsets,
// exactly. Between hosts causality bounds the offset: no rank completes an instance before every rank arrived.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/source.h"

namespace stalltrace::analysis {

class Clock {
 public:
  /// Reads the collectives only when there is more than one host.
  static Result<Clock> align(EventSource& source, const std::vector<Node>& nodes);

  /// What to add to a time of `node`.
  [[nodiscard]] int64_t shift_ns(NodeId node) const;
  [[nodiscard]] int64_t to_common(NodeId node, int64_t time_ns) const { return time_ns + shift_ns(node); }
  /// What a reader must know: offsets with their error, hosts that could not be aligned.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  /// True when the order of events on these two nodes is known to less than a stall.
  [[nodiscard]] bool comparable(NodeId a, NodeId b) const;
  /// The largest shift: how far the times of a node may lie from the common clock.
  [[nodiscard]] int64_t largest_shift_ns() const;

 private:
  std::unordered_map<NodeId, int64_t> shifts_;
  std::vector<std::string> notes_;
  struct Host {
    size_t index = 0;
    bool reliable = true;  // against the reference
  };
  void distrust(size_t host);
  std::unordered_map<NodeId, Host> hosts_;
};

}  // namespace stalltrace::analysis
