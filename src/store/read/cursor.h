// SPDX-License-Identifier: Apache-2.0
// The rows of one node run of one streamed table, in exact time order, block by block. Row groups (row_group.h) bound
// how far ahead an earlier row can be: rows up to the earliest start of all later row groups are final. While one block
// is consumed, workers read the next batches in parallel. Internal to store/.
#pragma once

#include <algorithm>
#include <deque>
#include <future>
#include <span>
#include <utility>
#include <vector>

#include "store/read/batch.h"
#include "store/read/thread_pool.h"

namespace stalltrace::store {

template <typename T>
class Cursor {
 public:
  struct PrefetchPolicy {
    size_t row_groups;  // per batch
    size_t batches;     // in memory: one is consumed, the others are read ahead; at least 1
  };

  Cursor(TableHandle& table, const NodeRun& run, std::vector<RowGroup> row_groups, TimeRange range,
         PrefetchPolicy prefetch)
      : row_groups_(std::move(row_groups)), batch_row_groups_(prefetch.row_groups) {
    for (size_t i = 0; i < prefetch.batches; ++i) {
      slots_.emplace_back(Batch<T>(table, run, range));
    }
  }

  /// Before the first batch is read: from where its batches take their storage.
  void use_storage_of(SpareRows<T>& spare) {
    for (Slot& slot : slots_) {
      slot.batch.use_storage(spare.take());
    }
  }
  /// At the end: no batch is being read any more, and no row is used.
  void give_storage_to(SpareRows<T>& spare) {
    merged_.clear();
    next_ = final_ = 0;
    for (Slot& slot : slots_) {
      spare.give_back(slot.batch.release_storage());
    }
  }

  /// Makes the first block the current one. The cursor and `workers` must not move until the end; `workers` is
  /// destroyed first.
  Status start(ThreadPool& workers) {
    begin(workers);
    return fill();
  }

  /// The first part of start(): has the first batches read and does not wait for them.
  void begin(ThreadPool& workers) {
    workers_ = &workers;
    for (Slot& slot : slots_) {
      order(slot);
    }
  }

  /// Makes the next block the current one; an empty block means the end.
  Status fill() {
    do {
      set_rest_aside();
      if (taken_ != nullptr) {
        order(*std::exchange(taken_, nullptr));
      }
      if (ordered_.empty()) {
        return {};
      }
      taken_ = ordered_.front();
      ordered_.pop_front();
      ST_TRY(workers_->finish(taken_->made));
      make_block();
    } while (block_done());
    return {};
  }

  [[nodiscard]] bool block_done() const { return next_ == final_; }
  [[nodiscard]] const T& row() const { return *merged_[next_].row; }
  void next() { ++next_; }
  [[nodiscard]] std::span<const Timed<T>> block() const { return std::span(merged_.data() + next_, final_ - next_); }
  void skip_block() { next_ = final_; }

 private:
  struct Slot {
    explicit Slot(Batch<T> empty) : batch(std::move(empty)) {}
    Batch<T> batch;
    std::span<const RowGroup> row_groups;
    std::future<Status> made;
  };

  /// Starts reading the next row groups into `slot`, if any are left.
  void order(Slot& slot) {
    // Reads at least as many rows as are set aside: if all of a table must wait for its last row (as a file may claim),
    // each row is set aside a few times, not once per batch.
    const size_t wanted = std::max(batch_row_groups_, aside_order_.size() / ZoneMap::kRows);
    const size_t count = std::min(wanted, row_groups_.size() - ordered_row_groups_);
    if (count == 0) {
      return;
    }
    slot.row_groups = std::span(row_groups_).subspan(ordered_row_groups_, count);
    ordered_row_groups_ += count;
    slot.made = workers_->submit(ThreadPool::Job([&slot] { return slot.batch.read(slot.row_groups); }));
    ordered_.push_back(&slot);
  }

  /// At equal times, rows set aside precede those of the batch: their ids are lower.
  void make_block() {
    const std::span<const Timed<T>> read = taken_->batch.rows();
    merged_.resize(aside_order_.size() + read.size());
    std::merge(aside_order_.begin(), aside_order_.end(), read.begin(), read.end(), merged_.begin(),
               [](const Timed<T>& a, const Timed<T>& b) { return a.time_ns < b.time_ns; });
    const auto end = std::upper_bound(merged_.begin(), merged_.end(), taken_->row_groups.back().later_min_ns,
                                      [](int64_t time_ns, const Timed<T>& row) { return time_ns < row.time_ns; });
    next_ = 0;
    final_ = static_cast<size_t>(end - merged_.begin());
  }

  /// Moves rows that are not final to storage that outlives their batch.
  void set_rest_aside() {
    const size_t count = merged_.size() - final_;
    if (spare_.size() < count) {
      spare_.resize(count);
    }
    aside_order_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      const Timed<T>& rest = merged_[final_ + i];
      std::swap(spare_[i], *rest.row);
      aside_order_[i] = {rest.time_ns, &spare_[i]};
    }
    std::swap(aside_, spare_);
    merged_.clear();
    next_ = final_ = 0;
  }

  std::vector<RowGroup> row_groups_;
  size_t batch_row_groups_;
  size_t ordered_row_groups_ = 0;
  std::deque<Slot> slots_;  // a deque, because slots must not move
  std::deque<Slot*> ordered_;
  Slot* taken_ = nullptr;
  std::vector<T> aside_;
  std::vector<T> spare_;  // swapped with aside_
  std::vector<Timed<T>> aside_order_;
  std::vector<Timed<T>> merged_;  // [next_, final_) is the block
  size_t next_ = 0;
  size_t final_ = 0;
  ThreadPool* workers_ = nullptr;
};

}  // namespace stalltrace::store
