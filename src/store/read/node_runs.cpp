// SPDX-License-Identifier: Apache-2.0
#include "store/read/node_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>

namespace stalltrace::store {
namespace {

using RunKey = std::tuple<NodeId, std::string, std::string, int64_t>;

constexpr size_t kMostRunsInAll = 1 << 20;  // far fewer than there are ids

struct KeyedRun {
  RunKey key;
  NodeRun run;
};

/// One agent's run has its boot and its start; its id may have been changed by a merge.
RunKey key_of(NodeId id, std::string name, std::string boot_id, int64_t started_ns) {
  const bool known = !boot_id.empty() && started_ns != 0;
  return {known ? 0 : id, std::move(name), std::move(boot_id), started_ns};
}

/// Every node of one file, by id, including those without a row in `node`.
Result<std::vector<KeyedRun>> runs_of(Database& db, size_t file) {
  ST_ASSIGN(Statement statement,
            db.prepare("SELECT ids.node_id, node.name, node.boot_id, ifnull(node.started_ns, 0), ifnull(rows, 0)"
                       " FROM (SELECT node_id FROM node UNION SELECT DISTINCT node_id FROM segment"
                       "       UNION SELECT DISTINCT node_id FROM process) AS ids"
                       " LEFT JOIN node USING(node_id)"
                       " LEFT JOIN (SELECT node_id, sum(max(0, min(rows, 1 << 40))) AS rows FROM segment"
                       "            GROUP BY node_id) USING(node_id)"
                       " ORDER BY ids.node_id"));
  std::vector<KeyedRun> runs;
  int code = SQLITE_DONE;
  while ((code = statement.step()) == SQLITE_ROW) {
    if (statement.integer(0) < 0 || statement.integer(0) >= int64_t{1} << kNodeIdBits ||
        (!runs.empty() && statement.integer(0) <= runs.back().run.id_in_file) || runs.size() >= kMostRunsOfFile) {
      return fail(
          fmt::format("{}: {}", db.path(),
                      runs.size() >= kMostRunsOfFile ? fmt::format("holds more than {} node runs", kMostRunsOfFile)
                                                     : fmt::format("{} is no node's id", statement.integer(0))),
          "give the recordings of one job; this one is damaged, or was altered", ErrorKind::kCorrupt);
    }
    const auto id = static_cast<NodeId>(statement.integer(0));
    NodeRun run{.file = file,
                .id_in_file = id,
                .unified_id = id,
                .first_id = make_event_id(id, 0),
                .end_id = 0,
                .rows = statement.integer(4),
                .runs_in_file = 0};
    runs.push_back(
        {key_of(id, std::string(statement.text(1)), std::string(statement.text(2)), statement.integer(3)), run});
  }
  if (code != SQLITE_DONE) {
    return fail_sqlite(db.get(), db.path() + ": nodes");
  }
  if (!runs.empty()) {
    // No row is left out, even with an impossible id.
    runs.front().run.first_id = std::numeric_limits<int64_t>::min();
    for (size_t i = 0; i < runs.size(); ++i) {
      runs[i].run.runs_in_file = runs.size();
      runs[i].run.end_id = i + 1 < runs.size() ? runs[i + 1].run.first_id : std::numeric_limits<int64_t>::max();
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

Status NodePlan::add(Database& db, size_t file) {
  ST_ASSIGN(const std::vector<KeyedRun> runs, runs_of(db, file));
  for (const KeyedRun& keyed : runs) {
    keep(keyed.key, keyed.run);
  }
  return {};
}

void NodePlan::add(const Node& node, const NodeRun& run) {
  keep(key_of(node.node_id, node.name, node.boot_id, node.started_ns), run);
}

void NodePlan::keep(const RunKey& key, const NodeRun& run) {
  auto [known, is_new] = kept_.try_emplace(key, run);
  if (!is_new && known->second.file == run.file) {  // two runs, since no file has one twice
    RunKey other = key;
    std::get<NodeId>(other) = run.id_in_file;
    std::tie(known, is_new) = kept_.try_emplace(std::move(other), run);
  }
  if (!is_new && run.rows > known->second.rows) {
    known->second = run;
  }
}

Result<std::vector<NodeRun>> NodePlan::runs() const {
  if (kept_.size() > kMostRunsInAll) {
    return fail(fmt::format("{} node runs are too many to be read together", kept_.size()),
                "give the recordings of one job", ErrorKind::kUsage);
  }
  std::vector<NodeRun> runs;
  for (const auto& [key, run] : kept_) {
    runs.push_back(run);
  }
  std::ranges::sort(runs, {}, [](const NodeRun& run) { return std::pair(run.file, run.id_in_file); });
  std::set<NodeId> used;
  for (const NodeRun& run : runs) {
    used.insert(run.id_in_file);
  }
  std::set<NodeId> given;
  for (NodeRun& run : runs) {
    if (!given.insert(run.id_in_file).second) {
      run.unified_id = free_id(run.id_in_file, used);
      used.insert(run.unified_id);
    }
  }
  return runs;
}

}  // namespace stalltrace::store
