// SPDX-License-Identifier: Apache-2.0
// Which rows of one evidence table are kept where there are more than fit: of each second of the stalls and of each
// node alike, so that neither an early stall nor a busy node takes the room of the others. Where that would be too few
// of each to show anything, of some of the seconds.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analysis/intervals.h"
#include "base/result.h"
#include "model/event_ids.h"

namespace stalltrace::analysis {

/// Asked about each row of a table in one pass; where again() then says so, in a second one, for which what was kept is
/// to be dropped. Memory: some 40 bytes for each second of a node that has rows; where these are more than kMostCounts,
/// for each two seconds, or four, and so on.
class RowBudget {
 public:
  /// Some 160 MB: an hour of a thousand nodes.
  static constexpr size_t kMostCounts = size_t{4} << 20;

  /// At most `capacity` rows are kept.
  RowBudget(const IntervalSet& windows, int64_t capacity, size_t most_counts = kMostCounts);

  /// Whether a row of this node and time is kept; of one outside of the windows, the next window counts.
  bool room(NodeId node, int64_t time_ns);
  /// After a pass: true where more rows came than fit. Now the share of each node's second is known.
  bool again();
  /// Before a second pass that another budget asked for.
  void repeat();
  /// Counts that are held.
  [[nodiscard]] size_t counts() const { return counts_.size(); }
  /// Rows that were not kept.
  [[nodiscard]] int64_t dropped() const { return total_ - kept_; }

 private:
  struct Window {
    Interval time{0, 0};
    size_t first_slice = 0;
  };
  [[nodiscard]] size_t slice_of(int64_t time_ns) const;
  [[nodiscard]] int64_t fair_share() const;
  [[nodiscard]] int64_t rows_of_one_in(uint64_t every) const;
  void thin_out();
  void join_slices();

  int64_t capacity_;
  std::vector<Window> windows_;
  size_t most_counts_;
  size_t slices_ = 0;
  unsigned joined_ = 0;  // the logarithm of the number of slices that have one count
  /// Rows of each node's slice: in the second pass, those asked about again.
  std::unordered_map<uint64_t, int64_t> counts_;
  int64_t share_ = -1;  // the most rows of a node's slice; -1 in the first pass
  uint64_t every_ = 1;  // one block of slices in this many is kept
  int64_t total_ = 0;
  int64_t kept_ = 0;
};

/// Rows of a table that found no room.
struct DroppedRows {
  std::string_view table;
  int64_t rows = 0;
};

/// `read` asks the budget about each row of a table. If not all fit, `reset` drops what was kept, and `read` is called
/// once more.
template <typename Read, typename Reset>
Status read_fairly(RowBudget& budget, Read read, Reset reset) {
  ST_TRY(read());
  if (!budget.again()) {
    return {};
  }
  reset();
  return read();
}

}  // namespace stalltrace::analysis
