// SPDX-License-Identifier: Apache-2.0
// The node runs of several recordings: which of them are copies of one run, and which ids different runs get if they
// share one by chance. Internal to store/.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "model/events.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace::store {

/// The rows of one node run in one file.
struct NodeRun {
  size_t file = 0;
  NodeId stored = 0;     // its id in that file
  NodeId shown = 0;      // its id in the combined source; differs only after a collision
  int64_t first_id = 0;  // its rows of streamed tables: [first_id, end_id) in that file
  int64_t end_id = 0;
  int64_t rows = 0;  // in streamed tables, to choose the copy with more rows
  size_t runs_in_file = 0;
};

/// Decides which file each run is read from. Several copies of a node run (same id, name, boot and start) are read
/// once, from the file with the most rows.
class NodePlan {
 public:
  /// Adds the runs of the next file. `db` may be closed afterwards.
  Status add(Database& db, size_t file);
  /// The parts to read, with files in the order of their addition.
  [[nodiscard]] Result<std::vector<NodeRun>> parts() const;

 private:
  using RunKey = std::tuple<NodeId, std::string, std::string, int64_t>;  // id, name, boot, start
  std::map<RunKey, NodeRun> kept_;
};

/// The shown id of a row of `part` with stored id `id`.
constexpr EventId shown_id(const NodeRun& part, EventId id) {
  return part.shown == part.stored ? id : make_event_id(part.shown, number_of(id));
}

}  // namespace stalltrace::store
