// SPDX-License-Identifier: Apache-2.0
// Zone maps: for each range of about a thousand consecutive ids of a streamed table, the earliest start and the latest
// end of its rows. With them a reader streams a table in exact time order without sorting or an index and skips rows
// outside of a time range, and pruning deletes old rows by ranges. Internal to store/; owned by the writer.
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
  int64_t first_id = 0;  // it ends before the next zone's first_id
  int64_t min_ns = 0;    // earliest timestamp_ns
  int64_t end_ns = 0;    // latest end; kForever once it has held a row without an end
  int64_t rows = 0;      // rows ever written; unchanged by pruning
  bool changed = true;   // since it was last stored
};

/// The segments of one table and one node during writing.
class ZoneMap {
 public:
  static constexpr int64_t kRows = 1024;

  explicit ZoneMap(NodeId node) : node_(node) {}

  void add(int64_t id, int64_t start_ns, int64_t end_ns);
  /// Writes changed segments with `upsert` (source, first_id, node_id, min_ns, end_ns, rows). Returns SQLITE_DONE or
  /// the error's code.
  int store(Statement& upsert, std::string_view source);
  /// Call after a rollback: all segments must be written again.
  void mark_all_changed();

  [[nodiscard]] NodeId node() const { return node_; }
  [[nodiscard]] const std::vector<Segment>& segments() const { return segments_; }
  /// The end (exclusive) of segment `index`.
  [[nodiscard]] int64_t end_id(size_t index) const;

 private:
  void mark_changed(size_t index);

  NodeId node_;
  int64_t last_id_ = 0;  // the greatest id
  std::vector<Segment> segments_;
  std::vector<size_t> changed_;
};

inline constexpr const char* kUpsertSegment =
    "INSERT OR REPLACE INTO segment(source, first_id, node_id, min_ns, end_ns, rows) VALUES(?, ?, ?, ?, ?, ?)";

/// The ids of one node: [first_id_of(), end_id_of()).
constexpr int64_t first_id_of(NodeId node) { return make_event_id(node, 0); }
constexpr int64_t end_id_of(NodeId node) {
  return node + 1 < 1U << kNodeIdBits ? make_event_id(node + 1, 0) : kForever;
}

}  // namespace stalltrace::store
