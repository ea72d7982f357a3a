// SPDX-License-Identifier: Apache-2.0
#include "model/streams/node_streams.h"

namespace stalltrace {

Status read_by_node(EventSource& source, TimeRange range, const std::set<NodeId>* nodes,
                    EventSource::AnyVisitor visitor) {
  if (auto* streams = dynamic_cast<NodeStreams*>(&source)) {
    return streams->read_by_node(range, nodes, visitor);
  }
  if (nodes == nullptr) {
    return source.read_stream(range, visitor);
  }
  return std::visit(
      [&]<typename T>(const EventSource::Visitor<T>* visit) {
        return source.stream<T>(range, [&](const T& row) {
          if (nodes->contains(row.node_id)) {
            (*visit)(row);
          }
        });
      },
      visitor);
}

}  // namespace stalltrace
