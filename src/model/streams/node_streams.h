// SPDX-License-Identifier: Apache-2.0
// Rows of thousands of nodes, in the order that costs their source least.
#pragma once

#include <set>

#include "model/source.h"

namespace stalltrace {

/// What an EventSource may be besides: one that keeps the rows of each node apart, as files of nodes do, and reads one
/// after the other.
class NodeStreams {
 public:
  virtual ~NodeStreams() = default;
  /// Like EventSource::read_stream, of `nodes` only if that is not null. The rows of one node come in time order; nodes
  /// come one after the other, or mixed.
  virtual Status read_by_node(TimeRange range, const std::set<NodeId>* nodes, EventSource::AnyVisitor visitor) = 0;
};

/// Reads any source that way: one without NodeStreams in time order.
Status read_by_node(EventSource& source, TimeRange range, const std::set<NodeId>* nodes,
                    EventSource::AnyVisitor visitor);

/// The rows of a range; those of one node come in time order, nodes in any. `nodes`: only their rows; null: all.
template <StreamedType T>
Status stream_by_node(EventSource& source, TimeRange range, const std::set<NodeId>* nodes,
                      const EventSource::Visitor<T>& visit) {
  return read_by_node(source, range, nodes, &visit);
}

}  // namespace stalltrace
