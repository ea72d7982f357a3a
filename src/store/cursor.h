// SPDX-License-Identifier: Apache-2.0
// The rows of one node run of one streamed table, in exact time order, a block at a time. Segments (segment.h) say
// how far ahead an earlier row can hide: rows up to the earliest start of all later segments are final. Internal to
// store/.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "model/source.h"
#include "store/node_plan.h"
#include "store/select.h"

namespace stalltrace {

/// A run of ids [first_id, end_id) with its zone map and the earliest start in all later runs.
struct Stretch {
  int64_t first_id;
  int64_t end_id;
  int64_t min_ns;
  int64_t end_ns;
  int64_t later_min_ns;
};

/// The stretches of `part` in `table`, ascending; together they cover every id of the part.
Result<std::vector<Stretch>> stretches_of(Database& db, std::string_view table, const NodePart& part);

template <typename T>
class Cursor {
 public:
  /// `select` reads [id, id) of the table; shared by the cursors of a file, never at the same time.
  Cursor(const std::string& path, Database& db, Statement& select, const NodePart& part, std::vector<Stretch> stretches,
         TimeRange range)
      : path_(&path), db_(&db), select_(&select), part_(part), stretches_(std::move(stretches)), range_(range) {}

  /// Makes the next block the current one; an empty block is the end.
  Status fill() {
    std::move(rows_.begin() + static_cast<std::ptrdiff_t>(final_), rows_.begin() + static_cast<std::ptrdiff_t>(used_),
              rows_.begin());
    used_ -= final_;
    next_ = final_ = 0;
    while (final_ == 0 && at_ < stretches_.size()) {
      const Stretch& stretch = stretches_[at_++];
      ST_TRY(read(stretch));
      sort();
      count_final(stretch.later_min_ns);
    }
    if (at_ == stretches_.size()) {
      final_ = used_;
    }
    return {};
  }

  [[nodiscard]] bool block_done() const { return next_ == final_; }
  [[nodiscard]] const T& row() const { return rows_[next_]; }
  void next() { ++next_; }
  [[nodiscard]] std::span<const T> block() const { return std::span(rows_.data() + next_, final_ - next_); }
  void skip_block() { next_ = final_; }

 private:
  Status read(const Stretch& stretch) {
    if (stretch.min_ns >= range_.to_ns || stretch.end_ns < range_.from_ns) {
      return {};
    }
    select_->bind(1, stretch.first_id);
    select_->bind(2, stretch.end_id);
    int code = SQLITE_DONE;
    while ((code = select_->step()) == SQLITE_ROW) {
      if (used_ == rows_.size()) {
        rows_.resize(rows_.size() + SegmentList::kRows);
      }
      T& row = rows_[used_];
      extract(*select_, row);
      if (row.timestamp_ns < range_.to_ns && end_of(row) >= range_.from_ns) {
        show(row);
        ++used_;
      }
    }
    Status status =
        code == SQLITE_DONE ? Status() : fail_sqlite(db_->get(), fmt::format("{}: {}", *path_, TableOf<T>::kName));
    select_->reset();
    return status;
  }

  void show(T& row) const {
    if (part_.shown != part_.stored) {
      row.node_id = part_.shown;
      if constexpr (TableOf<T>::kKind == TableKind::kEvents) {
        row.event_id = shown_id(part_, row.event_id);
      }
    }
  }

  void sort() {
    const auto end = rows_.begin() + static_cast<std::ptrdiff_t>(used_);
    const auto earlier = [](const T& a, const T& b) { return a.timestamp_ns < b.timestamp_ns; };
    if (!std::is_sorted(rows_.begin(), end, earlier)) {
      std::stable_sort(rows_.begin(), end, earlier);
    }
  }

  void count_final(int64_t horizon_ns) {
    const auto end = rows_.begin() + static_cast<std::ptrdiff_t>(used_);
    final_ =
        static_cast<size_t>(std::upper_bound(rows_.begin(), end, horizon_ns,
                                             [](int64_t time_ns, const T& row) { return time_ns < row.timestamp_ns; }) -
                            rows_.begin());
  }

  const std::string* path_;  // for errors
  Database* db_;
  Statement* select_;
  NodePart part_;
  std::vector<Stretch> stretches_;
  TimeRange range_;
  size_t at_ = 0;        // next stretch to read
  std::vector<T> rows_;  // slots are reused: [0, used_) are rows, of which [next_, final_) can be taken
  size_t used_ = 0;
  size_t final_ = 0;
  size_t next_ = 0;
};

}  // namespace stalltrace
