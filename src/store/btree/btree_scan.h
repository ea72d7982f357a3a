// SPDX-License-Identifier: Apache-2.0
// Visits a table's rows page by page down its tree (SQLite's documented file format, section 1.5). Internal to store/.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "store/btree/btree_table.h"
#include "store/btree/record.h"

namespace stalltrace::store {

/// Used by one thread at a time.
class BtreeScan {
 public:
  explicit BtreeScan(std::shared_ptr<const BtreeTable> table) : table_(std::move(table)), record_(*table_) {}

  /// Calls visit(RecordColumns&) for each row with an id in [first_id, end_id), ascending. On any result other than
  /// kNone the rows must be read with SQL; some may already have been visited.
  template <typename Visit>
  Fallback read(int64_t first_id, int64_t end_id, Visit&& visit) {
    return each_leaf(first_id, end_id, [&](std::span<const Cell> cells) {
      for (const Cell& cell : cells) {
        if (!record_.take(cell.id, cell.begin, cell.end)) {
          return Fallback::kRecord;
        }
        RecordColumns columns = record_.columns();
        visit(columns);
        if (columns.type_mismatch()) {
          return Fallback::kValueType;
        }
      }
      return Fallback::kNone;
    });
  }

 private:
  /// A row's record in the current page.
  struct Cell {
    int64_t id;
    const uint8_t* begin;
    const uint8_t* end;
  };
  using VisitLeaf = std::function<Fallback(std::span<const Cell>)>;

  Fallback each_leaf(int64_t first_id, int64_t end_id, const VisitLeaf& visit);
  Fallback visit_tree();
  bool load(size_t level, uint32_t page, uint32_t count);
  Fallback interior(size_t level);
  Fallback leaf(const uint8_t* page);

  static constexpr size_t kMostLevels = 20;  // same as SQLite's own limit
  static constexpr uint32_t kMostAtOnce = 16;

  std::shared_ptr<const BtreeTable> table_;
  UniqueFd opened_;  // where the table does not keep its file open
  int fd_ = -1;
  RecordReader record_;
  std::array<std::vector<uint8_t>, kMostLevels + 1> levels_;  // pages on the way down; at a leaf, also neighbours
  std::vector<Cell> cells_;
  int64_t first_id_ = 0;
  int64_t end_id_ = 0;
  int64_t last_id_ = 0;     // ids ascend unless the file is damaged
  int64_t pages_left_ = 0;  // no page is visited twice unless the file is damaged
  const VisitLeaf* visit_ = nullptr;
};

}  // namespace stalltrace::store
