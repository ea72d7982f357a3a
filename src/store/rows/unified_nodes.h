// SPDX-License-Identifier: Apache-2.0
// Which nodes several recordings have in common, and under which ids they are read together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/result.h"
#include "model/events/job.h"
#include "store/read/node_runs.h"

namespace stalltrace::store {

/// The ids under which the nodes of several recordings are read together: a node run that several recordings have is
/// read from the one with the most rows, and runs that share an id by chance get others (as store/read/reader.h does).
class UnifiedNodes {
 public:
  /// `recording`: its index. `rows_of_nodes`: of its nodes, also of those without a row in `nodes`.
  void add(size_t recording, const std::vector<Node>& nodes, const std::map<NodeId, int64_t>& rows_of_nodes);
  /// To be called after the last one.
  Status decide();

  /// Nothing: its rows are read from another recording.
  [[nodiscard]] std::optional<NodeId> unified_id(size_t recording, NodeId id_in_file) const;
  /// Whether all its nodes are read from others.
  [[nodiscard]] bool is_copy(size_t recording) const;

 private:
  NodePlan plan_;
  std::map<size_t, std::map<NodeId, NodeId>> unified_ids_;  // by recording and id in it
};

}  // namespace stalltrace::store
