// SPDX-License-Identifier: Apache-2.0
// Which rows of one evidence table are kept where there are more than fit: of each second of the stalls alike, so that
// neither an early stall nor a busy one takes the room of the others.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "analysis/intervals.h"
#include "base/result.h"

namespace stalltrace::analysis {

/// Asked about each row of a table in one pass; where again() then says so, in a second one, for which what was kept is
/// to be dropped. Memory: 16 bytes a second of the windows.
class RowBudget {
 public:
  /// At most `capacity` rows are kept.
  RowBudget(const IntervalSet& windows, int64_t capacity);

  /// Whether a row of this time is kept; of one outside of the windows, the next window counts.
  bool room(int64_t time_ns);
  /// After a pass: true where more rows came than fit. Now each second's share is known.
  bool again();
  /// Rows that were not kept.
  [[nodiscard]] int64_t dropped() const { return total_ - kept_; }

 private:
  struct Window {
    Interval time{0, 0};
    size_t first_slice = 0;
  };
  [[nodiscard]] size_t slice_of(int64_t time_ns) const;
  [[nodiscard]] int64_t fair_share() const;

  int64_t capacity_;
  std::vector<Window> windows_;
  std::vector<int64_t> counts_;  // rows of each slice: in the second pass, those asked about again
  int64_t share_ = -1;           // the most rows of a slice; -1 in the first pass
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
