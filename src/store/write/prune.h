// SPDX-License-Identifier: Apache-2.0
// Limits the size of a recording: removes normal rows, oldest first over all streamed tables, and rows about processes,
// communicators and connections that ended before the rows that are left; then, if necessary, more of these, and rows
// around stalls as well, and at last those of processes with a call that never ended. Works on whole segments by ranges
// of ids. Internal to store/.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/write/prune_states.h"
#include "store/write/stall_window.h"
#include "store/write/zone_map.h"

namespace stalltrace::store {

/// A streamed table of the node being recorded.
struct PrunableTable {
  std::string_view name;
  std::string_view id_column;
  std::string_view end_sql;
  const ZoneMap* zone_map = nullptr;
};

class Pruner {
 public:
  using Removed = EndedStates::Removed;

  struct Limits {
    int64_t target_bytes = 0;       // of the database in use: pruning ends there
    int64_t transaction_bytes = 0;  // that one transaction changes, roughly: the log holds them for a time
  };

  /// Removes rows of `node` until the target is reached, or no old rows are left.
  Result<Removed> prune(Database& db, NodeId node, const std::vector<PrunableTable>& tables, const Keep& keep,
                        Limits limits);

 private:
  /// A segment that still has its normal rows, or all rows.
  struct Candidate {
    int64_t min_ns;
    const PrunableTable* table;
    size_t index;
  };
  using Depth = EndedStates::Depth;

  [[nodiscard]] std::vector<Candidate> candidates(const std::vector<PrunableTable>& tables, Depth depth) const;
  static Result<uint64_t> remove(Database& db, const Candidate& candidate, const std::vector<TimeRange>& keep);
  static Status remove_all(Database& db, std::span<const Candidate> batch, const std::vector<TimeRange>& keep,
                           Removed& removed);
  Status prune_streams(Database& db, const std::vector<PrunableTable>& tables, Depth depth,
                       const std::vector<TimeRange>& keep, Limits limits, Removed& removed);
  static Status prune_states(Database& db, NodeId node, const Keep& keep, Depth depth, Limits limits, Removed& removed);
  /// The earliest row that was not removed as a normal one.
  [[nodiscard]] int64_t oldest_ns(const std::vector<PrunableTable>& tables) const;
  std::set<int64_t>& done(Depth depth, std::string_view table);

  std::map<std::string, std::set<int64_t>, std::less<>> done_[2];  // first ids by table, for each depth
};

/// Bytes of the database file that hold data.
Result<int64_t> used_bytes(Database& db);

}  // namespace stalltrace::store
