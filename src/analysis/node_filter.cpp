// SPDX-License-Identifier: Apache-2.0
#include "analysis/node_filter.h"

#include "model/events/imported/inspector.h"
#include "model/events/imported_evidence.h"
#include "model/streams/node_streams.h"

namespace stalltrace::analysis {

Result<std::set<NodeId>> nodes_without_durations(EventSource& source) {
  ST_ASSIGN(const std::vector<Node> nodes, source.nodes());
  std::set<NodeId> found;
  for (const Node& node : nodes) {
    if (lacks(node, kLacksDurations) || lacks(node, kLacksBegins)) {
      found.insert(node.node_id);
    }
  }
  return found;
}

Result<std::set<NodeId>> nodes_with_ordered_calls(EventSource& source) {
  ST_ASSIGN(const std::vector<Node> nodes, source.nodes());
  std::set<NodeId> found;
  for (const Node& node : nodes) {
    if (lacks(node, kLacksDurations) && !lacks(node, kLacksCalls)) {
      found.insert(node.node_id);
    }
  }
  return found;
}

Status NodeFilter::read_state(AnyRows rows) {
  return std::visit(
      [&]<typename T>(std::vector<T>* all) -> Status {
        ST_ASSIGN(std::vector<T> read, source_.all<T>());
        for (T& row : read) {
          if constexpr (requires { row.node_id; }) {
            if (!keeps(row.node_id)) {
              continue;
            }
          }
          all->push_back(std::move(row));
        }
        return {};
      },
      rows);
}

Status NodeFilter::read_stream(TimeRange range, AnyVisitor visitor) {
  return std::visit(
      [&]<typename T>(const Visitor<T>* visit) {
        return source_.stream<T>(range, [&](const T& row) {
          if (keeps(row.node_id)) {
            (*visit)(row);
          }
        });
      },
      visitor);
}

Status NodeFilter::read_by_node(TimeRange range, const std::set<NodeId>* nodes, AnyVisitor visitor) {
  return std::visit(
      [&]<typename T>(const Visitor<T>* visit) {
        return stream_by_node<T>(source_, range, nodes, [&](const T& row) {
          if (keeps(row.node_id)) {
            (*visit)(row);
          }
        });
      },
      visitor);
}

}  // namespace stalltrace::analysis
