// SPDX-License-Identifier: Apache-2.0
// The ids of the events that one node records. An id has its node in it, so that ids of several nodes never collide.
#pragma once

#include "model/events.h"

namespace stalltrace {

/// Numbers the events of one node's run, from 1. Single-threaded.
class EventIds {
 public:
  explicit EventIds(NodeId node) : node_(node) {}
  EventId next() { return make_event_id(node_, ++last_); }
  [[nodiscard]] NodeId node() const { return node_; }

 private:
  NodeId node_;
  uint64_t last_ = 0;
};

}  // namespace stalltrace
