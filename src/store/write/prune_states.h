// SPDX-License-Identifier: Apache-2.0
// Removes rows about what has ended (processes, their use of graphs, competitors, communicators, connections) from a
// recording of limited size. Streamed rows refer to them by pid and cookie: such a row goes when the rows of its time
// are gone. Internal to store/.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/events.h"
#include "model/time_range.h"
#include "store/sqlite/sqlite.h"
#include "store/write/open_calls.h"

namespace stalltrace::store {

/// What pruning spares.
struct Keep {
  std::vector<TimeRange> windows;    // disjoint, in time order
  std::vector<OpenCall> open_calls;  // as OpenCalls::sorted() has them
};

/// The rows of one node that ended, as they were when they were read. Removes them in batches, in the order of their
/// ends: a communicator never stays without its process.
class EndedStates {
 public:
  using Removed = std::map<std::string, uint64_t>;  // rows, by table
  enum class Depth { kNormal, kEverything };

  /// Rows that ended before `before_ns`. For kNormal without those that lived in one of the windows, and those of
  /// processes that ended inside an open call. For kEverything with them; the latter go after all others.
  static Result<EndedStates> read(Database& db, NodeId node, int64_t before_ns, const Keep& keep, Depth depth);

  /// Removes the next `most` rows, as one transaction, which counts them in `loss`. Empty: none are left.
  Result<Removed> remove_some(Database& db, size_t most);

 private:
  struct Row {
    bool of_open_call = false;
    int64_t end_ns = 0;
    size_t table = 0;  // of kStates
    std::array<int64_t, 3> key{};

    friend auto operator<=>(const Row&, const Row&) = default;
  };

  explicit EndedStates(NodeId node) : node_(node) {}
  Status read_table(Database& db, size_t table, int64_t before_ns, const Keep& keep, Depth depth);

  NodeId node_;
  std::vector<Row> rows_;
  size_t next_ = 0;
};

/// Adds to the row 'pruned:TABLE' of `loss`. In the transaction that removes the rows, so that a kill loses neither or
/// both.
Status count_pruned(Database& db, NodeId node, const std::string& table, uint64_t count);

}  // namespace stalltrace::store
