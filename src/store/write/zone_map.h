// SPDX-License-Identifier: Apache-2.0
// Zone maps: for each run of about a thousand neighbouring ids of a streamed table, the earliest start and the latest
// end of its rows. They let a reader stream a table in exact time order without sorting or indexing it, skip what a
// time range does not touch, and let pruning delete old rows by ranges. Internal to store/; owned by the writer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/events.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace::store {

struct Segment {
  int64_t first_id = 0;  // it ends before the next one's first_id
  int64_t min_ns = 0;    // earliest timestamp_ns
  int64_t end_ns = 0;    // latest end; kForever once it held a row without an end
  int64_t rows = 0;      // rows ever written; pruning leaves it
  bool changed = true;   // since it was last stored
};

/// The segments of one table and one node while it is being written.
class ZoneMap {
 public:
  static constexpr int64_t kRows = 1024;

  explicit ZoneMap(NodeId node) : node_(node) {}

  void add(int64_t id, int64_t start_ns, int64_t end_ns);
  /// Writes what changed since the last call with `upsert` (source, first_id, node_id, min_ns, end_ns, rows).
  /// SQLITE_DONE, or the error's code.
  int store(Statement& upsert, std::string_view source);
  /// After a rollback: everything is to be written again.
  void mark_all_changed();

  [[nodiscard]] NodeId node() const { return node_; }
  [[nodiscard]] const std::vector<Segment>& segments() const { return segments_; }
  /// The id before which segment `index` ends.
  [[nodiscard]] int64_t end_id(size_t index) const;

 private:
  void mark_changed(size_t index);

  NodeId node_;
  int64_t last_id_ = 0;  // the greatest
  std::vector<Segment> segments_;
  std::vector<size_t> changed_;
};

inline constexpr const char* kUpsertSegment =
    "INSERT OR REPLACE INTO segment(source, first_id, node_id, min_ns, end_ns, rows) VALUES(?, ?, ?, ?, ?, ?)";

/// Half-open range of ids of one node.
constexpr int64_t first_id_of(NodeId node) { return make_event_id(node, 0); }
constexpr int64_t end_id_of(NodeId node) {
  return node + 1 < 1U << kNodeIdBits ? make_event_id(node + 1, 0) : kForever;
}

}  // namespace stalltrace::store
