// SPDX-License-Identifier: Apache-2.0
#include "store/write/prune.h"

#include <fmt/format.h>

#include <algorithm>

namespace stalltrace::store {
namespace {

constexpr size_t kSegmentsPerTransaction = 16;  // some 16,000 rows: a few megabytes of log

/// In the transaction that removes the rows, so that a kill loses neither or both.
Status count_pruned(Database& db, NodeId node, const std::string& table, uint64_t count) {
  return count == 0 ? Status()
                    : db.execute(fmt::format("INSERT INTO loss(node_id, source, count) VALUES({}, 'pruned:{}', {}) "
                                             "ON CONFLICT DO UPDATE SET count = count + excluded.count",
                                             node, table, count));
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
    const std::vector<Segment>& segments = table.segments->segments();
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
  const Segment& segment = table.segments->segments()[candidate.index];
  std::string sql = fmt::format("DELETE FROM {} WHERE {} >= {} AND {} < {}", table.name, table.id_column,
                                segment.first_id, table.id_column, table.segments->end_id(candidate.index));
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
                          std::map<std::string, uint64_t>& removed) {
  std::map<std::string, uint64_t> counts;
  ST_ASSIGN(Transaction transaction, Transaction::begin(db, "BEGIN IMMEDIATE"));
  for (const Candidate& candidate : batch) {
    ST_ASSIGN(const uint64_t count, remove(db, candidate, keep));
    counts[std::string(candidate.table->name)] += count;
  }
  for (const auto& [table, count] : counts) {
    ST_TRY(count_pruned(db, batch.front().table->segments->node(), table, count));
  }
  ST_TRY(transaction.commit());
  for (const auto& [table, count] : counts) {
    removed[table] += count;
  }
  return {};
}

Result<std::map<std::string, uint64_t>> Pruner::prune(Database& db, const std::vector<PrunableTable>& tables,
                                                      const std::vector<TimeRange>& keep, int64_t target_bytes) {
  std::map<std::string, uint64_t> removed;
  const std::vector<TimeRange> nothing;
  for (const Depth depth : {Depth::kNormal, Depth::kEverything}) {
    const std::vector<Candidate> old = candidates(tables, depth);
    for (size_t first = 0; first < old.size(); first += kSegmentsPerTransaction) {
      ST_ASSIGN(const int64_t used, used_bytes(db));
      if (used <= target_bytes) {
        return removed;
      }
      const size_t count = std::min(old.size() - first, kSegmentsPerTransaction);
      const std::span batch(old.data() + first, count);
      ST_TRY(remove_all(db, batch, depth == Depth::kNormal ? keep : nothing, removed));
      for (const Candidate& candidate : batch) {
        done(depth, candidate.table->name).insert(candidate.table->segments->segments()[candidate.index].first_id);
      }
    }
  }
  return removed;
}

}  // namespace stalltrace::store
