// SPDX-License-Identifier: Apache-2.0
#include "store/rows/shown_nodes.h"

namespace stalltrace::store {

void ShownNodes::add(size_t recording, const std::vector<Node>& nodes, const std::map<NodeId, int64_t>& rows_of_nodes) {
  std::map<NodeId, Node> runs;
  for (const auto& [id, rows] : rows_of_nodes) {
    runs[id].node_id = id;
  }
  for (const Node& node : nodes) {
    runs[node.node_id] = node;
  }
  if (!runs.empty()) {  // else it has nothing that another one could have as well
    shown_[recording];
  }
  for (const auto& [id, node] : runs) {
    const auto rows = rows_of_nodes.find(id);
    plan_.add(node, {.file = recording,
                     .stored = id,
                     .shown = id,
                     .rows = rows == rows_of_nodes.end() ? 0 : rows->second,
                     .runs_in_file = runs.size()});
  }
}

Status ShownNodes::decide() {
  ST_ASSIGN(const std::vector<NodeRun> parts, plan_.parts());
  for (const NodeRun& part : parts) {
    shown_[part.file][part.stored] = part.shown;
  }
  return {};
}

std::optional<NodeId> ShownNodes::shown(size_t recording, NodeId stored) const {
  const auto found = shown_.find(recording);
  const auto id = found == shown_.end() ? std::map<NodeId, NodeId>::const_iterator() : found->second.find(stored);
  return found == shown_.end() || id == found->second.end() ? std::nullopt : std::optional(id->second);
}

bool ShownNodes::is_copy(size_t recording) const {
  const auto found = shown_.find(recording);
  return found != shown_.end() && found->second.empty();
}

}  // namespace stalltrace::store
