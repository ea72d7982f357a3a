// SPDX-License-Identifier: Apache-2.0
// Two sources as one, such as recordings and the rows that were made of logs.
#pragma once

#include "model/source.h"
#include "model/streams/node_streams.h"

namespace stalltrace::cli {

/// Rows come in time order; of equal times, those of `first` first. Rows of `first` that are visited are copied: give
/// it the smaller source. Both must outlive the object.
class JoinedSource final : public EventSource, public NodeStreams {
 public:
  JoinedSource(EventSource& first, EventSource& second) : first_(first), second_(second) {}

  Status read_state(AnyRows rows) override;
  Status read_stream(TimeRange range, AnyVisitor visitor) override;
  Status read_by_node(TimeRange range, const std::set<NodeId>* nodes, AnyVisitor visitor) override;

 private:
  EventSource& first_;
  EventSource& second_;
};

}  // namespace stalltrace::cli
