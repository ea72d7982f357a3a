// SPDX-License-Identifier: Apache-2.0
#include "store/rows/unified_nodes.h"

namespace stalltrace::store {

void UnifiedNodes::add(size_t recording, const std::vector<Node>& nodes,
                       const std::map<NodeId, int64_t>& rows_of_nodes) {
  std::map<NodeId, Node> runs;
  for (const auto& [id, rows] : rows_of_nodes) {
    runs[id].node_id = id;
  }
  for (const Node& node : nodes) {
    runs[node.node_id] = node;
  }
  if (!runs.empty()) {  // else it has nothing that another one could have as well
    unified_ids_[recording];
  }
  for (const auto& [id, node] : runs) {
    const auto rows = rows_of_nodes.find(id);
    plan_.add(node, {.file = recording,
                     .id_in_file = id,
                     .unified_id = id,
                     .rows = rows == rows_of_nodes.end() ? 0 : rows->second,
                     .runs_in_file = runs.size()});
  }
}

Status UnifiedNodes::decide() {
  ST_ASSIGN(const std::vector<NodeRun> runs, plan_.runs());
  for (const NodeRun& run : runs) {
    unified_ids_[run.file][run.id_in_file] = run.unified_id;
  }
  return {};
}

std::optional<NodeId> UnifiedNodes::unified_id(size_t recording, NodeId id_in_file) const {
  const auto found = unified_ids_.find(recording);
  const auto id =
      found == unified_ids_.end() ? std::map<NodeId, NodeId>::const_iterator() : found->second.find(id_in_file);
  return found == unified_ids_.end() || id == found->second.end() ? std::nullopt : std::optional(id->second);
}

bool UnifiedNodes::is_copy(size_t recording) const {
  const auto found = unified_ids_.find(recording);
  return found != unified_ids_.end() && found->second.empty();
}

}  // namespace stalltrace::store
