// SPDX-License-Identifier: Apache-2.0
#include "store/write/prune_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace stalltrace::store {
namespace {

struct StateTable {
  std::string_view name;
  std::string_view begin;
  std::string_view end;                 // SQL for the time of its end, NULL while it lasts
  std::array<std::string_view, 3> key;  // besides node_id; an empty name: none
};

/// Communicators first: one that was not destroyed ends with its process, whose row comes later.
constexpr std::array kStates{
    StateTable{"communicator",
               "created_ns",
               "ifnull(destroyed_ns, (SELECT max(exit_ns) FROM process WHERE process.node_id = communicator.node_id"
               " AND process.pid = communicator.pid AND process.start_ns <= communicator.created_ns))",
               {"pid", "comm_ptr", "created_ns"}},
    StateTable{"connection", "opened_ns", "closed_ns", {"cookie", "", ""}},
    StateTable{"process", "start_ns", "exit_ns", {"pid", "start_ns", ""}}};

struct EndedRow {
  std::array<int64_t, 3> key{};
  int64_t end_ns = 0;
};

bool lived_in(const std::vector<TimeRange>& windows, int64_t begin_ns, int64_t end_ns) {
  const auto next = std::ranges::lower_bound(windows, begin_ns, {}, &TimeRange::to_ns);
  return next != windows.end() && next->from_ns <= end_ns;
}

Result<std::vector<EndedRow>> ended_rows(Database& db, const StateTable& table, NodeId node, int64_t before_ns,
                                         const std::vector<TimeRange>& keep, size_t most) {
  std::string columns = fmt::format("{}, {} AS ended", table.begin, table.end);
  for (const std::string_view key : table.key) {
    columns += fmt::format(", {}", key.empty() ? "0" : key);
  }
  ST_ASSIGN(Statement select,
            db.prepare(fmt::format("SELECT {} FROM {} WHERE node_id = ? AND ended < ?", columns, table.name)));
  select.bind(1, static_cast<int64_t>(node));
  select.bind(2, before_ns);
  std::vector<EndedRow> rows;
  int code = SQLITE_DONE;
  while ((code = select.step()) == SQLITE_ROW) {
    if (!lived_in(keep, select.integer(0), select.integer(1))) {
      rows.push_back({{select.integer(2), select.integer(3), select.integer(4)}, select.integer(1)});
    }
  }
  if (code != SQLITE_DONE) {
    return fail_sqlite(db.get(), fmt::format("ended rows of {}", table.name));
  }
  const size_t count = std::min(rows.size(), most);
  std::ranges::partial_sort(rows, rows.begin() + static_cast<std::ptrdiff_t>(count), {}, &EndedRow::end_ns);
  rows.resize(count);
  return rows;
}

Status remove_rows(Database& db, const StateTable& table, NodeId node, const std::vector<EndedRow>& rows) {
  std::string condition = "node_id = ?";
  for (const std::string_view key : table.key) {
    condition += key.empty() ? "" : fmt::format(" AND {} = ?", key);
  }
  ST_ASSIGN(Statement remove, db.prepare(fmt::format("DELETE FROM {} WHERE {}", table.name, condition)));
  for (const EndedRow& row : rows) {
    remove.bind(1, static_cast<int64_t>(node));
    for (size_t i = 0; i < table.key.size() && !table.key[i].empty(); ++i) {
      remove.bind(static_cast<int>(i) + 2, row.key[i]);
    }
    if (remove.step() != SQLITE_DONE) {
      return fail_sqlite(db.get(), fmt::format("ended rows of {}", table.name));
    }
    remove.reset();
  }
  return {};
}

}  // namespace

Status count_pruned(Database& db, NodeId node, const std::string& table, uint64_t count) {
  return count == 0 ? Status()
                    : db.execute(fmt::format("INSERT INTO loss(node_id, source, count) VALUES({}, 'pruned:{}', {}) "
                                             "ON CONFLICT DO UPDATE SET count = count + excluded.count",
                                             node, table, count));
}

Result<std::map<std::string, uint64_t>> prune_ended_states(Database& db, NodeId node, int64_t before_ns,
                                                           const std::vector<TimeRange>& keep, size_t most) {
  std::map<std::string, uint64_t> removed;
  ST_ASSIGN(Transaction transaction, Transaction::begin(db, "BEGIN IMMEDIATE"));
  for (const StateTable& table : kStates) {
    ST_ASSIGN(const std::vector<EndedRow> rows, ended_rows(db, table, node, before_ns, keep, most));
    ST_TRY(remove_rows(db, table, node, rows));
    ST_TRY(count_pruned(db, node, std::string(table.name), rows.size()));
    if (!rows.empty()) {
      removed[std::string(table.name)] = rows.size();
    }
  }
  ST_TRY(transaction.commit());
  return removed;
}

}  // namespace stalltrace::store
