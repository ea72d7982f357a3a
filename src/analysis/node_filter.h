// SPDX-License-Identifier: Apache-2.0
// A source without the nodes whose calls have no durations, or only with them: what others' logs and dumps show is
// judged by the order of calls, what stalltrace recorded by times.
#pragma once

#include <set>

#include "model/source.h"
#include "model/streams/node_streams.h"

namespace stalltrace::analysis {

/// The nodes whose rows come from logs, dumps and measurements without times (model/events/imported_evidence.h,
/// imported/inspector.h).
Result<std::set<NodeId>> nodes_without_durations(EventSource& source);

/// Those of them that have calls.
Result<std::set<NodeId>> nodes_with_ordered_calls(EventSource& source);

class NodeFilter final : public EventSource, public NodeStreams {
 public:
  enum class Keep : uint8_t { kListed, kOthers };
  /// `source` must outlive the object.
  NodeFilter(EventSource& source, std::set<NodeId> nodes, Keep keep)
      : source_(source), nodes_(std::move(nodes)), keep_(keep) {}

  Status read_state(AnyRows rows) override;
  Status read_stream(TimeRange range, AnyVisitor visitor) override;
  Status read_by_node(TimeRange range, const std::set<NodeId>* nodes, AnyVisitor visitor) override;

 private:
  [[nodiscard]] bool keeps(NodeId node) const { return nodes_.contains(node) == (keep_ == Keep::kListed); }

  EventSource& source_;
  std::set<NodeId> nodes_;
  Keep keep_;
};

}  // namespace stalltrace::analysis
