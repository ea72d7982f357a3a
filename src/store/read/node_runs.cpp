// SPDX-License-Identifier: Apache-2.0
#include "store/read/node_runs.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>

namespace stalltrace::store {
namespace {

using RunKey = std::tuple<NodeId, std::string, std::string, int64_t>;  // id, name, boot, start

struct Run {
  RunKey key;
  NodeRun part;
};

/// Every node of one file, ids ascending, also those whose row in `node` is missing.
Result<std::vector<Run>> runs_of(Database& db, size_t file) {
  ST_ASSIGN(Statement statement,
            db.prepare("SELECT ids.node_id, node.name, node.boot_id, ifnull(node.started_ns, 0),"
                       "  (SELECT ifnull(sum(rows), 0) FROM segment WHERE segment.node_id = ids.node_id)"
                       " FROM (SELECT node_id FROM node UNION SELECT DISTINCT node_id FROM segment"
                       "       UNION SELECT DISTINCT node_id FROM process) AS ids"
                       " LEFT JOIN node USING(node_id) ORDER BY ids.node_id"));
  std::vector<Run> runs;
  int code = SQLITE_DONE;
  while ((code = statement.step()) == SQLITE_ROW) {
    const auto id = static_cast<NodeId>(statement.integer(0));
    NodeRun part{.file = file,
                 .stored = id,
                 .shown = id,
                 .first_id = make_event_id(id, 0),
                 .end_id = 0,
                 .rows = statement.integer(4),
                 .runs_in_file = 0};
    runs.push_back({RunKey(id, statement.text(1), statement.text(2), statement.integer(3)), part});
  }
  if (code != SQLITE_DONE) {
    return fail_sqlite(db.get(), db.path() + ": nodes");
  }
  if (!runs.empty()) {
    // No row is left out, whatever its id.
    runs.front().part.first_id = std::numeric_limits<int64_t>::min();
    for (size_t i = 0; i < runs.size(); ++i) {
      runs[i].part.runs_in_file = runs.size();
      runs[i].part.end_id = i + 1 < runs.size() ? runs[i + 1].part.first_id : std::numeric_limits<int64_t>::max();
    }
  }
  return runs;
}

NodeId free_id(NodeId taken, const std::set<NodeId>& used) {
  constexpr NodeId kMask = (1U << kNodeIdBits) - 1;
  NodeId id = taken;
  while (id == 0 || used.contains(id)) {
    id = (id + 1) & kMask;
  }
  return id;
}

}  // namespace

Result<std::vector<NodeRun>> plan_nodes(std::span<Database> files) {
  std::map<RunKey, NodeRun> kept;
  for (size_t file = 0; file < files.size(); ++file) {
    ST_ASSIGN(const std::vector<Run> runs, runs_of(files[file], file));
    for (const Run& run : runs) {
      const auto [known, is_new] = kept.try_emplace(run.key, run.part);
      if (!is_new && run.part.rows > known->second.rows) {
        known->second = run.part;
      }
    }
  }
  std::vector<NodeRun> parts;
  for (const auto& [key, part] : kept) {
    parts.push_back(part);
  }
  std::stable_sort(parts.begin(), parts.end(), [](const NodeRun& a, const NodeRun& b) { return a.file < b.file; });
  std::set<NodeId> used;
  for (const NodeRun& part : parts) {
    used.insert(part.stored);
  }
  std::set<NodeId> given;
  for (NodeRun& part : parts) {
    if (!given.insert(part.stored).second) {
      part.shown = free_id(part.stored, used);
      used.insert(part.shown);
    }
  }
  return parts;
}

}  // namespace stalltrace::store
