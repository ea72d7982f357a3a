// SPDX-License-Identifier: Apache-2.0
// The rows of one node run of one streamed table, in exact time order, a block at a time. Segments (segment.h) say
// how far ahead an earlier row can hide: rows up to the earliest start of all later segments are final. While one block
// is taken the next is made by a worker. Internal to store/.
#pragma once

#include <algorithm>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "model/source.h"
#include "store/node_plan.h"
#include "store/paged_table.h"
#include "store/select.h"
#include "store/workers.h"

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

/// One table of one file, shared by the cursors of its node runs.
struct TableAccess {
  std::string path;  // for errors
  Database* db = nullptr;
  std::shared_ptr<const PagedTable> pages;  // null: read with SQL
  Statement select;                         // reads the ids [?, ?)
  std::mutex mutex;                         // whoever uses db and select holds it
};

template <typename T>
class Cursor {
 public:
  /// `block_rows`: how many rows a block has at least, but for the last.
  Cursor(TableAccess& access, const NodePart& part, std::vector<Stretch> stretches, TimeRange range, size_t block_rows)
      : access_(&access),
        part_(part),
        stretches_(std::move(stretches)),
        range_(range),
        block_rows_(block_rows),
        scan_(access.pages != nullptr ? std::make_unique<PageScan>(access.pages) : nullptr) {}

  /// Makes the first block the current one. Neither the cursor nor `workers` moves until it is done; `workers` goes
  /// first.
  Status start(Workers& workers) {
    workers_ = &workers;
    order_next();
    return fill();
  }

  /// Makes the next block the current one; an empty block is the end.
  Status fill() {
    if (!made_.valid()) {
      block_.clear();
      return {};
    }
    ST_TRY(made_.get());
    std::swap(block_, next_block_);
    if (!block_.done()) {
      order_next();
    }
    return {};
  }

  [[nodiscard]] bool block_done() const { return block_.done(); }
  [[nodiscard]] const T& row() const { return block_.rows[block_.next]; }
  void next() { ++block_.next; }
  [[nodiscard]] std::span<const T> block() const {
    return std::span(block_.rows.data() + block_.next, block_.end - block_.next);
  }
  void skip_block() { block_.next = block_.end; }

 private:
  /// Slots are reused, for the sake of their texts: [next, end) are the rows to take.
  struct Block {
    std::vector<T> rows;
    size_t next = 0;
    size_t end = 0;
    [[nodiscard]] bool done() const { return next == end; }
    void clear() { next = end = 0; }
  };

  void order_next() {
    made_ = workers_->submit(Workers::Job([this] { return make(next_block_); }));
  }

  // From here on in a worker: it alone touches these members while a block is ordered.

  Status make(Block& out) {
    out.clear();
    while (final_ < block_rows_ && at_ < stretches_.size()) {
      const Stretch& stretch = stretches_[at_++];
      ST_TRY(read(stretch));
      sort();
      count_final(stretch.later_min_ns);
    }
    if (at_ == stretches_.size()) {
      final_ = used_;
    }
    // The final rows go, those that stay move into slots of the block that was taken.
    const size_t left = used_ - final_;
    if (out.rows.size() < left) {
      out.rows.resize(left);
    }
    std::swap_ranges(out.rows.begin(), out.rows.begin() + static_cast<std::ptrdiff_t>(left),
                     rows_.begin() + static_cast<std::ptrdiff_t>(final_));
    std::swap(out.rows, rows_);
    out.end = final_;
    used_ = left;
    final_ = 0;
    return {};
  }

  Status read(const Stretch& stretch) {
    if (stretch.min_ns >= range_.to_ns || stretch.end_ns < range_.from_ns) {
      return {};
    }
    const size_t before = used_;
    const auto take = [this](auto& columns) {
      T& row = slot();
      each_column(row, Extractor(columns));
      keep(row);
    };
    if (scan_ != nullptr && scan_->read(stretch.first_id, stretch.end_id, take)) {
      return {};
    }
    used_ = before;
    return read_with_sql(stretch);
  }

  Status read_with_sql(const Stretch& stretch) {
    const std::lock_guard lock(access_->mutex);
    access_->select.bind(1, stretch.first_id);
    access_->select.bind(2, stretch.end_id);
    int code = SQLITE_DONE;
    while ((code = access_->select.step()) == SQLITE_ROW) {
      T& row = slot();
      extract(access_->select, row);
      keep(row);
    }
    Status status = code == SQLITE_DONE
                        ? Status()
                        : fail_sqlite(access_->db->get(), fmt::format("{}: {}", access_->path, TableOf<T>::kName));
    access_->select.reset();
    return status;
  }

  T& slot() {
    if (used_ == rows_.size()) {
      rows_.resize(rows_.size() + SegmentList::kRows);
    }
    return rows_[used_];
  }

  void keep(T& row) {
    if (row.timestamp_ns < range_.to_ns && end_of(row) >= range_.from_ns) {
      show(row);
      ++used_;
    }
  }

  void show(T& row) const {
    if (part_.shown != part_.stored) {
      row.node_id = part_.shown;
      if constexpr (TableOf<T>::kKind == TableKind::kEvents) {
        row.event_id = shown_id(part_, row.event_id);
      }
      if constexpr (std::is_same_v<T, ProxyStep>) {
        row.collective_id = row.collective_id == 0 ? 0 : shown_id(part_, row.collective_id);
      }
    }
  }

  /// Stable. Rows are large: their times are sorted, then each row moves once.
  void sort() {
    const auto end = rows_.begin() + static_cast<std::ptrdiff_t>(used_);
    if (std::is_sorted(rows_.begin(), end, [](const T& a, const T& b) { return a.timestamp_ns < b.timestamp_ns; })) {
      return;
    }
    order_.resize(used_);
    for (size_t i = 0; i < used_; ++i) {
      order_[i] = {rows_[i].timestamp_ns, i};
    }
    std::sort(order_.begin(), order_.end());
    for (size_t start = 0; start < used_; ++start) {
      if (order_[start].second == start) {
        continue;
      }
      T moved = std::move(rows_[start]);
      size_t to = start;
      while (order_[to].second != start) {
        const size_t from = std::exchange(order_[to].second, to);
        rows_[to] = std::move(rows_[from]);
        to = from;
      }
      order_[to].second = to;
      rows_[to] = std::move(moved);
    }
  }

  void count_final(int64_t horizon_ns) {
    const auto end = rows_.begin() + static_cast<std::ptrdiff_t>(used_);
    final_ =
        static_cast<size_t>(std::upper_bound(rows_.begin(), end, horizon_ns,
                                             [](int64_t time_ns, const T& row) { return time_ns < row.timestamp_ns; }) -
                            rows_.begin());
  }

  TableAccess* access_;
  NodePart part_;
  std::vector<Stretch> stretches_;
  TimeRange range_;
  size_t block_rows_;
  std::unique_ptr<PageScan> scan_;  // null: read with SQL
  size_t at_ = 0;                   // next stretch to read
  std::vector<T> rows_;             // [0, used_) are read, of which [0, final_) are in their place
  std::vector<std::pair<int64_t, size_t>> order_;
  size_t used_ = 0;
  size_t final_ = 0;
  Block next_block_;

  // The taker's own.
  Workers* workers_ = nullptr;
  Block block_;
  std::future<Status> made_;
};

}  // namespace stalltrace
