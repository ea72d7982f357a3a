// SPDX-License-Identifier: Apache-2.0
// The rows of a few consecutive row groups of one streamed table, in time order. They are read from the file's pages,
// or with SQL if the page reader can't read them. Internal to store/.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/source.h"
#include "store/btree/btree_scan.h"
#include "store/read/node_runs.h"
#include "store/read/open_files.h"
#include "store/read/plausible.h"
#include "store/read/row_group.h"
#include "store/schema/select.h"
#include "store/write/zone_map.h"

namespace stalltrace::store {

/// One table of one file, shared by all its readers.
struct TableHandle {
  std::string path;                         // for error messages
  std::shared_ptr<const BtreeTable> pages;  // null: read with SQL
  std::string sql;                          // reads ids in [?, ?)
  std::function<Result<OpenFiles::Use>()> open;
  std::optional<OpenFiles::Use> use;                        // none until rows are read with SQL
  Statement select;                                         // the same
  std::mutex mutex;                                         // held while use and select are used
  FallbackCounts* fallbacks = nullptr;                      // null: not counted
  int64_t most_rows = std::numeric_limits<int64_t>::max();  // upper bound for a file of its size
  std::atomic<int64_t> left_out = 0;                        // rows with impossible values

  void count(Fallback reason) const {
    if (fallbacks != nullptr) {
      ++(*fallbacks)[static_cast<size_t>(reason)];
    }
  }
};

/// A row with its time, the sort key.
template <typename T>
struct Timed {
  int64_t time_ns;
  T* row;
};

/// Storage for rows, to be used again by the next batch: that of a new one costs as much as reading its rows. One
/// thread takes and gives back.
template <typename T>
class SpareRows {
 public:
  SpareRows() { spare_.reserve(kMost); }
  std::vector<T> take() {
    if (spare_.empty()) {
      return {};
    }
    std::vector<T> rows = std::move(spare_.back());
    spare_.pop_back();
    return rows;
  }
  void give_back(std::vector<T>&& rows) {
    if (spare_.size() < kMost) {
      spare_.push_back(std::move(rows));
    }
  }

 private:
  static constexpr size_t kMost = 16;
  std::vector<std::vector<T>> spare_;
};

/// Used by one thread at a time; several batches of one table may be read concurrently.
template <typename T>
class Batch {
 public:
  Batch(TableHandle& table, const NodeRun& run, TimeRange range) : table_(&table), run_(run), range_(range) {}

  void use_storage(std::vector<T>&& rows) { rows_ = std::move(rows); }
  /// It has no rows then.
  std::vector<T> release_storage() {
    order_.clear();
    used_ = 0;
    return std::exchange(rows_, {});
  }

  /// Replaces its content with the rows of `row_groups` in the range.
  Status read(std::span<const RowGroup> row_groups) {
    used_ = 0;
    for (size_t i = 0; i < row_groups.size();) {
      const int64_t first_id = row_groups[i].first_id;
      int64_t end_id = row_groups[i].end_id;
      for (++i; i < row_groups.size() && row_groups[i].first_id == end_id; ++i) {
        end_id = row_groups[i].end_id;
      }
      ST_TRY(read_ids(first_id, end_id));
    }
    sort();
    return {};
  }

  /// Ascending by time, then by id. A caller may swap a row for another one, which is then reused.
  [[nodiscard]] std::span<const Timed<T>> rows() const { return order_; }

 private:
  Status read_ids(int64_t first_id, int64_t end_id) {
    if (scan_ == nullptr && table_->pages != nullptr) {
      scan_ = std::make_unique<BtreeScan>(table_->pages);
    }
    const size_t before = used_;
    const auto take = [this](RecordColumns& columns) {
      T& row = slot();
      decode(columns, row);
      keep(row);
    };
    if (scan_ != nullptr) {
      const Fallback met = scan_->read(first_id, end_id, take);
      if (met == Fallback::kNone) {
        return {};
      }
      table_->count(met);
    }
    used_ = before;
    return read_with_sql(first_id, end_id);
  }

  /// Flattened, and with a copy of its own: otherwise each column is a call, and the position is stored after each.
  /// Without this and that of is_plausible(), explain of 128 files takes 1.09 times the CPU time (0.91..1.21; 10 paired
  /// rounds, 2026-11-27).
  [[gnu::flatten]] static void decode(RecordColumns& columns, T& row) {
    RecordColumns own = columns;
    each_column(row, Extractor(own));
    columns = own;
  }

  Status read_with_sql(int64_t first_id, int64_t end_id) {
    const std::lock_guard lock(table_->mutex);
    if (!table_->select) {
      ST_ASSIGN(table_->use, table_->open());
      ST_ASSIGN(table_->select, table_->use->db().prepare(table_->sql));
    }
    table_->select.bind(1, first_id);
    table_->select.bind(2, end_id);
    int code = SQLITE_DONE;
    for (int64_t rows = 0; (code = table_->select.step()) == SQLITE_ROW; ++rows) {
      if (rows > table_->most_rows) {
        table_->select.reset();
        return fail_more_rows(table_->path, EventTraits<T>::kTable);
      }
      T& row = slot();
      extract(table_->select, row);
      keep(row);
    }
    Status status = code == SQLITE_DONE ? Status()
                                        : fail_sqlite(table_->use->db().get(),
                                                      fmt::format("{}: {}", table_->path, EventTraits<T>::kTable));
    table_->select.reset();
    return status;
  }

  /// Reuses slots to keep the capacity of their texts.
  T& slot() {
    if (used_ == rows_.size()) {
      rows_.resize(rows_.size() + ZoneMap::kRows);
    }
    return rows_[used_];
  }

  void keep(T& row) {
    if (!is_plausible(row)) [[unlikely]] {
      table_->left_out.fetch_add(1, std::memory_order_relaxed);
    } else if (belongs_to(row, range_)) {
      unify_ids(row);
      ++used_;
    }
  }

  void unify_ids(T& row) const {
    if (run_.unified_id != run_.id_in_file) {
      row.node_id = run_.unified_id;
      if constexpr (EventTraits<T>::kKind == TableKind::kEvents) {
        row.event_id = unified_id(run_, row.event_id);
      }
      if constexpr (requires { row.collective_id; }) {
        row.collective_id = row.collective_id == 0 ? 0 : unified_id(run_, row.collective_id);
      }
    }
  }

  void sort() {
    order_.resize(used_);
    for (size_t i = 0; i < used_; ++i) {
      order_[i] = {rows_[i].timestamp_ns, &rows_[i]};
    }
    const auto before = [](const Timed<T>& a, const Timed<T>& b) {
      return a.time_ns != b.time_ns ? a.time_ns < b.time_ns : a.row < b.row;
    };
    if (!std::is_sorted(order_.begin(), order_.end(), before)) {
      std::sort(order_.begin(), order_.end(), before);
    }
  }

  TableHandle* table_;
  NodeRun run_;
  TimeRange range_;
  std::unique_ptr<BtreeScan> scan_;  // null: nothing was read yet, or it was read with SQL
  std::vector<T> rows_;              // the first used_ rows are valid
  size_t used_ = 0;
  std::vector<Timed<T>> order_;
};

}  // namespace stalltrace::store
