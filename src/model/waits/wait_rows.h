// SPDX-License-Identifier: Apache-2.0
// Rows of waits, each wait once.
#pragma once

#include <cstddef>
#include <functional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "model/events/scheduler.h"

namespace stalltrace {

/// A long wait is recorded while it lasts (`open`), perhaps several times, and again when its end was seen: all rows
/// with one thread and one begin are one wait. Its ended row counts, else the longest open one. A wait whose end was
/// not seen was over when the next wait of its thread began. The rows of a node must come in the order of their begins,
/// as sources deliver them.
class WaitRows {
 public:
  /// `over_ns` is the time, on the clock of the row's node, at which an open wait was over at the latest; kForever if
  /// nothing shows that it was. For an ended wait it is kForever.
  using Visit = std::function<void(const WaitSpan& row, int64_t over_ns)>;
  explicit WaitRows(Visit visit) : visit_(std::move(visit)) {}

  /// Visits the row at once if it has ended, and an open one before it of its thread.
  void add(const WaitSpan& row);
  /// Visits the waits that are still open.
  void finish();

 private:
  using Key = std::tuple<NodeId, int32_t, int32_t>;  // node, pid, tid
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  /// The ended waits of a node that began last: open rows of theirs may still come.
  class Ended {
   public:
    void add(const WaitSpan& row);
    [[nodiscard]] bool contains(const WaitSpan& row) const;

   private:
    static constexpr size_t kFew = 16;
    int64_t begin_ns_ = INT64_MIN;
    std::vector<uint64_t> few_;          // pid and tid
    std::unordered_set<uint64_t> many_;  // those that did not fit
  };
  Ended& ended_of(NodeId node);
  void make_room();
  [[nodiscard]] std::vector<Key> open_threads() const;

  static constexpr size_t kMostThreads = 65'536;  // bounds the memory

  Visit visit_;
  std::unordered_map<Key, WaitSpan, KeyHash> open_;  // few of the threads have one
  std::unordered_map<NodeId, Ended> ended_;
  std::pair<NodeId, Ended*> newest_{};  // of the row before
};

}  // namespace stalltrace
