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
  NodeId id_in_file = 0;
  NodeId unified_id = 0;  // its id in the combined source; differs only after a collision
  int64_t first_id = 0;   // its rows of streamed tables: [first_id, end_id) in that file
  int64_t end_id = 0;
  int64_t rows = 0;  // in streamed tables, to choose the copy with more rows
  size_t runs_in_file = 0;
};

inline constexpr size_t kMostRunsOfFile = 16'384;  // each takes some 20 KiB while a table is read

/// Decides which file each run is read from. Several copies of a node run (same name, boot and start; also the same id
/// where boot or start are not known) are read once, from the file with the most rows.
class NodePlan {
 public:
  /// Adds the runs of the next file. `db` may be closed afterwards.
  Status add(Database& db, size_t file);
  /// Adds a run of which another source has the rows: `run` as such a file's would be.
  void add(const Node& node, const NodeRun& run);
  /// The runs to read, with files in the order of their addition.
  [[nodiscard]] Result<std::vector<NodeRun>> runs() const;

 private:
  using RunKey = std::tuple<NodeId, std::string, std::string, int64_t>;  // id, name, boot, start
  void keep(const RunKey& key, const NodeRun& run);

  std::map<RunKey, NodeRun> kept_;
};

/// The unified id of a row of `run` that has the id `id` in its file.
constexpr EventId unified_id(const NodeRun& run, EventId id) {
  return run.unified_id == run.id_in_file ? id : make_event_id(run.unified_id, number_of(id));
}

}  // namespace stalltrace::store
