// SPDX-License-Identifier: Apache-2.0
#include "store/write/prune.h"

#include <fmt/format.h>

#include <algorithm>

namespace stalltrace::store {
namespace {

constexpr int64_t kSegmentBytes = 128 << 10;  // of a thousand rows
constexpr int64_t kStateBytes = 128;          // of a row, with what it shares of a page

size_t states_of(const Pruner::Limits& limits) {
  return static_cast<size_t>(std::max<int64_t>(limits.transaction_bytes / kStateBytes, 1));
}

void add(Pruner::Removed& all, const Pruner::Removed& some) {
  for (const auto& [table, count] : some) {
    all[table] += count;
  }
}

/// No row has an id of the segment any more.
Result<bool> is_empty(Database& db, const PrunableTable& table, size_t index) {
  ST_ASSIGN(Statement select, db.prepare(fmt::format("SELECT 1 FROM {} WHERE {} >= ? AND {} < ? LIMIT 1", table.name,
                                                     table.id_column, table.id_column)));
  select.bind(1, table.zone_map->segments()[index].first_id);
  select.bind(2, table.zone_map->end_id(index));
  const int code = select.step();
  return code == SQLITE_ROW || code == SQLITE_DONE ? Result<bool>(code == SQLITE_DONE)
                                                   : fail_sqlite(db.get(), fmt::format("segments of {}", table.name));
}

}  // namespace

Result<int64_t> used_bytes(Database& db) {
  ST_ASSIGN(const int64_t pages, db.integer("PRAGMA page_count"));
  ST_ASSIGN(const int64_t unused, db.integer("PRAGMA freelist_count"));
  ST_ASSIGN(const int64_t page_bytes, db.integer("PRAGMA page_size"));
  return (pages - unused) * page_bytes;
}

std::set<int64_t>& Pruner::done(Depth depth, std::string_view table) {
  auto& sets = done_[static_cast<size_t>(depth)];
  const auto found = sets.find(table);
  return found != sets.end() ? found->second : sets[std::string(table)];
}

std::vector<Pruner::Candidate> Pruner::candidates(const std::vector<PrunableTable>& tables, Depth depth) const {
  std::vector<Candidate> found;
  const auto& sets = done_[static_cast<size_t>(depth)];
  for (const PrunableTable& table : tables) {
    const auto set = sets.find(table.name);
    const std::vector<Segment>& segments = table.zone_map->segments();
    for (size_t i = 0; i + 1 < segments.size(); ++i) {  // the last one is still being filled
      if (set == sets.end() || !set->second.contains(segments[i].first_id)) {
        found.push_back({segments[i].min_ns, &table, i});
      }
    }
  }
  std::sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) { return a.min_ns < b.min_ns; });
  return found;
}

Result<uint64_t> Pruner::remove(Database& db, const Candidate& candidate, const std::vector<TimeRange>& keep) {
  const PrunableTable& table = *candidate.table;
  const Segment& segment = table.zone_map->segments()[candidate.index];
  std::string sql = fmt::format("DELETE FROM {} WHERE {} >= {} AND {} < {}", table.name, table.id_column,
                                segment.first_id, table.id_column, table.zone_map->end_id(candidate.index));
  for (const TimeRange& window : keep) {
    if (segment.min_ns < window.to_ns && segment.end_ns >= window.from_ns) {
      sql += fmt::format(" AND NOT (timestamp_ns < {} AND ifnull({}, {}) >= {})", window.to_ns, table.end_sql, kForever,
                         window.from_ns);
    }
  }
  if (table.name == "collective") {
    sql += fmt::format(" AND {} IS NOT NULL", table.end_sql);  // a hang is removed last
  }
  ST_TRY(db.execute(sql));
  return static_cast<uint64_t>(sqlite3_changes64(db.get()));
}

Status Pruner::remove_all(Database& db, std::span<const Candidate> batch, const std::vector<TimeRange>& keep,
                          Removed& removed) {
  Removed counts;
  ST_ASSIGN(Transaction transaction, Transaction::begin(db, "BEGIN IMMEDIATE"));
  for (const Candidate& candidate : batch) {
    ST_ASSIGN(const uint64_t count, remove(db, candidate, keep));
    counts[std::string(candidate.table->name)] += count;
    ST_ASSIGN(const bool empty, is_empty(db, *candidate.table, candidate.index));
    if (empty) {
      ST_TRY(db.execute(fmt::format("DELETE FROM segment WHERE source = '{}' AND first_id = {}", candidate.table->name,
                                    candidate.table->zone_map->segments()[candidate.index].first_id)));
    }
  }
  for (const auto& [table, count] : counts) {
    ST_TRY(count_pruned(db, batch.front().table->zone_map->node(), table, count));
  }
  ST_TRY(transaction.commit());
  add(removed, counts);
  return {};
}

int64_t Pruner::oldest_ns(const std::vector<PrunableTable>& tables) const {
  const auto& sets = done_[static_cast<size_t>(Depth::kNormal)];
  int64_t oldest_ns = kForever;
  for (const PrunableTable& table : tables) {
    const std::vector<Segment>& segments = table.zone_map->segments();
    const auto set = sets.find(table.name);
    const auto first = std::ranges::find_if(
        segments, [&](const Segment& segment) { return set == sets.end() || !set->second.contains(segment.first_id); });
    if (segments.size() > 1 && first != segments.end()) {  // a table of a few rows spans all of time
      oldest_ns = std::min(oldest_ns, first->min_ns);
    }
  }
  return oldest_ns == kForever ? -kForever : oldest_ns;
}

Status Pruner::prune_streams(Database& db, const std::vector<PrunableTable>& tables, Depth depth,
                             const std::vector<TimeRange>& keep, Limits limits, Removed& removed) {
  const std::vector<Candidate> old = candidates(tables, depth);
  const auto at_once = static_cast<size_t>(std::max<int64_t>(limits.transaction_bytes / kSegmentBytes, 1));
  for (size_t first = 0; first < old.size(); first += at_once) {
    ST_ASSIGN(const int64_t used, used_bytes(db));
    if (used <= limits.target_bytes) {
      return {};
    }
    const size_t count = std::min(old.size() - first, at_once);
    const std::span batch(old.data() + first, count);
    ST_TRY(remove_all(db, batch, keep, removed));
    for (const Candidate& candidate : batch) {
      done(depth, candidate.table->name).insert(candidate.table->zone_map->segments()[candidate.index].first_id);
    }
  }
  return {};
}

Status Pruner::prune_states(Database& db, NodeId node, const Keep& keep, Depth depth, Limits limits, Removed& removed) {
  ST_ASSIGN(int64_t used, used_bytes(db));
  if (used <= limits.target_bytes) {
    return {};
  }
  ST_ASSIGN(EndedStates states, EndedStates::read(db, node, kForever, keep, depth));
  while (used > limits.target_bytes) {
    ST_ASSIGN(const Removed some, states.remove_some(db, states_of(limits)));
    if (some.empty()) {
      return {};
    }
    add(removed, some);
    ST_ASSIGN(used, used_bytes(db));
  }
  return {};
}

Result<Pruner::Removed> Pruner::prune(Database& db, NodeId node, const std::vector<PrunableTable>& tables,
                                      const Keep& keep, Limits limits) {
  Removed removed;
  ST_TRY(prune_streams(db, tables, Depth::kNormal, keep.windows, limits, removed));
  ST_ASSIGN(EndedStates old, EndedStates::read(db, node, oldest_ns(tables), keep, Depth::kNormal));
  ST_ASSIGN(const Removed some, old.remove_some(db, states_of(limits)));
  add(removed, some);
  ST_TRY(prune_states(db, node, keep, Depth::kNormal, limits, removed));
  ST_TRY(prune_streams(db, tables, Depth::kEverything, {}, limits, removed));
  ST_TRY(prune_states(db, node, keep, Depth::kEverything, limits, removed));
  return removed;
}

}  // namespace stalltrace::store
