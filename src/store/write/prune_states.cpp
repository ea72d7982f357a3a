// SPDX-License-Identifier: Apache-2.0
#include "store/write/prune_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "model/events/loss_sources.h"

namespace stalltrace::store {
namespace {

struct StateTable {
  std::string_view name;
  std::string_view begin;
  std::string_view end;                 // SQL for the time of its end, NULL while it lasts
  std::array<std::string_view, 3> key;  // besides node_id; an empty name: none
};

/// A communicator that was not destroyed ends with its process: the newest of its pid that had begun. One that had
/// ended before is not the communicator's, whose process has no row yet. Where both end at once, the communicator goes
/// first, since the end of its process would be unknown afterwards. So does what the process did with graphs.
constexpr std::array kStates{
    StateTable{"communicator",
               "created_ns",
               "ifnull(destroyed_ns, (SELECT iif(exit_ns >= communicator.created_ns, exit_ns, NULL) FROM process"
               " WHERE process.node_id = communicator.node_id AND process.pid = communicator.pid"
               " AND process.start_ns <= communicator.created_ns ORDER BY process.start_ns DESC LIMIT 1))",
               {"pid", "comm_ptr", "created_ns"}},
    StateTable{"graph_use",
               "graph_use.start_ns",
               "(SELECT exit_ns FROM process WHERE process.node_id = graph_use.node_id"
               " AND process.pid = graph_use.pid AND process.start_ns = graph_use.start_ns)",
               {"pid", "start_ns", ""}},
    StateTable{"connection", "opened_ns", "closed_ns", {"cookie", "", ""}},
    StateTable{"process", "start_ns", "exit_ns", {"pid", "start_ns", ""}},
    StateTable{"competitor", "start_ns", "exit_ns", {"pid", "start_ns", ""}}};

bool lived_in(const std::vector<TimeRange>& windows, int64_t begin_ns, int64_t end_ns) {
  const auto next = std::ranges::lower_bound(windows, begin_ns, {}, &TimeRange::to_ns);
  return next != windows.end() && next->from_ns <= end_ns;
}

bool has_call(const std::vector<OpenCall>& calls, int32_t pid, int64_t begin_ns, int64_t end_ns) {
  const auto next = std::ranges::lower_bound(calls, OpenCall{.pid = pid, .timestamp_ns = begin_ns});
  return next != calls.end() && next->pid == pid && next->timestamp_ns <= end_ns;
}

Result<Statement> prepare_removal(Database& db, const StateTable& table, NodeId node) {
  std::string condition = fmt::format("node_id = {}", node);
  for (const std::string_view key : table.key) {
    condition += key.empty() ? "" : fmt::format(" AND {} = ?", key);
  }
  return db.prepare(fmt::format("DELETE FROM {} WHERE {}", table.name, condition));
}

}  // namespace

Status EndedStates::read_table(Database& db, size_t table, int64_t before_ns, const Keep& keep, Depth depth) {
  const StateTable& state = kStates[table];
  std::string columns = fmt::format("{}, {} AS ended, pid", state.begin, state.end);
  for (const std::string_view key : state.key) {
    columns += fmt::format(", {}", key.empty() ? "0" : key);
  }
  ST_ASSIGN(Statement select,
            db.prepare(fmt::format("SELECT {} FROM {} WHERE node_id = ? AND ended < ?", columns, state.name)));
  select.bind(1, static_cast<int64_t>(node_));
  select.bind(2, before_ns);
  int code = SQLITE_DONE;
  while ((code = select.step()) == SQLITE_ROW) {
    const int64_t begin_ns = select.integer(0);
    const int64_t end_ns = select.integer(1);
    const bool of_open_call = has_call(keep.open_calls, static_cast<int32_t>(select.integer(2)), begin_ns, end_ns);
    if (depth == Depth::kEverything || (!of_open_call && !lived_in(keep.windows, begin_ns, end_ns))) {
      rows_.push_back({.of_open_call = of_open_call,
                       .end_ns = end_ns,
                       .table = table,
                       .key = {select.integer(3), select.integer(4), select.integer(5)}});
    }
  }
  return code == SQLITE_DONE ? Status() : fail_sqlite(db.get(), fmt::format("ended rows of {}", state.name));
}

Result<EndedStates> EndedStates::read(Database& db, NodeId node, int64_t before_ns, const Keep& keep, Depth depth) {
  EndedStates states(node);
  for (size_t table = 0; table < kStates.size(); ++table) {
    ST_TRY(states.read_table(db, table, before_ns, keep, depth));
  }
  std::ranges::sort(states.rows_);
  return states;
}

Result<EndedStates::Removed> EndedStates::remove_some(Database& db, size_t most) {
  const size_t count = std::min(most, rows_.size() - next_);
  Removed removed;
  if (count == 0) {
    return removed;
  }
  ST_ASSIGN(Transaction transaction, Transaction::begin(db, "BEGIN IMMEDIATE"));
  std::array<Statement, kStates.size()> removals;
  for (const Row& row : std::span(rows_).subspan(next_, count)) {
    const StateTable& state = kStates[row.table];
    Statement& removal = removals[row.table];
    if (!removal) {
      ST_ASSIGN(removal, prepare_removal(db, state, node_));
    }
    for (size_t i = 0; i < state.key.size() && !state.key[i].empty(); ++i) {
      removal.bind(static_cast<int>(i) + 1, row.key[i]);
    }
    if (removal.step() != SQLITE_DONE) {
      return fail_sqlite(db.get(), fmt::format("ended rows of {}", state.name));
    }
    removal.reset();
    ++removed[std::string(state.name)];
  }
  for (const auto& [table, rows] : removed) {
    ST_TRY(count_pruned(db, node_, table, rows));
  }
  ST_TRY(transaction.commit());
  next_ += count;
  return removed;
}

Status count_pruned(Database& db, NodeId node, const std::string& table, uint64_t count) {
  return count == 0 ? Status()
                    : db.execute(fmt::format("INSERT INTO loss(node_id, source, count) VALUES({}, '{}{}', {}) "
                                             "ON CONFLICT DO UPDATE SET count = count + excluded.count",
                                             node, kPrunedFrom, table, count));
}

}  // namespace stalltrace::store
