// SPDX-License-Identifier: Apache-2.0
// Several recordings as one: which node runs they hold, which of them are the same run given twice, and what id each
// gets where two different runs happen to share one. Internal to store/.
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
  NodeId shown = 0;      // its id among all; differs only after a collision
  int64_t first_id = 0;  // its rows of streamed tables: [first_id, end_id) in that file
  int64_t end_id = 0;
  int64_t rows = 0;  // of streamed tables, to choose the fuller of two copies
  size_t runs_in_file = 0;
};

/// Which runs of several files are read from which. A node run (same id, name, boot and start) found twice is kept
/// once, from the fuller file.
class NodePlan {
 public:
  /// Takes in the runs of the next file. `db` may be closed afterwards.
  Status add(Database& db, size_t file);
  /// The parts to read, files in the order in which they were added.
  [[nodiscard]] Result<std::vector<NodeRun>> parts() const;

 private:
  using RunKey = std::tuple<NodeId, std::string, std::string, int64_t>;  // id, name, boot, start
  std::map<RunKey, NodeRun> kept_;
};

/// `id` of a row of `part` as shown.
constexpr EventId shown_id(const NodeRun& part, EventId id) {
  return part.shown == part.stored ? id : make_event_id(part.shown, number_of(id));
}

}  // namespace stalltrace::store
