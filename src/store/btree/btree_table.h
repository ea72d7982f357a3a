// SPDX-License-Identifier: Apache-2.0
// Reads rows directly from the pages of a closed recording (SQLite's documented file format), on any number of threads.
// This file finds the table in its file (section 1.3), btree_scan.h visits its pages, record.h reads a row. They
// support only the common case and otherwise return the reason (fallback.h): the rows are then read with SQL, and
// SQLite reads them or reports the damage.
//
// Gain (bench/recording/reader_bench.cpp, 2026-11-22, 1 million collectives, 2 cores, 7 rounds): SQL took 8.0 times as
// long (5.3 to 8.6) on one thread and 8.0 times (7.1 to 11.4) on two, each with its own connection, and 7.7 and 7.6
// times when it read only the columns that `explain` uses. Below 1.5 times this folder should be removed. Internal to
// store/.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/handle.h"
#include "store/btree/fallback.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace::store {

/// The location of a table in its file. Immutable after its creation, so threads can share it.
struct BtreeTable {
  std::string path;
  UniqueFd fd;            // empty: opened for each reading
  struct stat status {};  // in which state it is read
  uint32_t page_size = 0;
  uint32_t usable = 0;  // usable bytes of a page
  uint32_t pages = 0;
  uint32_t root = 0;
  size_t stored_columns = 0;
  size_t id_column = 0;         // stored as NULL: its value is the row's id
  std::vector<uint8_t> stored;  // by requested column: its position in the row; kMissingColumn if there is none
};
inline constexpr size_t kMostColumns = 64;
inline constexpr uint8_t kMissingColumn = kMostColumns;

/// A table, or the reason why it must be read with SQL.
struct FoundTable {
  std::shared_ptr<const BtreeTable> table;  // null if there is a reason
  Fallback reason = Fallback::kNone;
};

/// Whether a table has its file open all the time.
enum class KeepsOpen : bool { kNo, kYes };

/// Where a declaration puts the columns: the same in all files with that declaration.
struct TableLayout {
  size_t stored_columns = 0;
  size_t id_column = 0;
  std::vector<uint8_t> stored;  // as in BtreeTable
  bool plain = false;           // rows are stored in the way that is supported here
};

Result<TableLayout> find_table_layout(Database& db, std::string_view table, std::string_view id_column,
                                      const std::vector<std::string>& columns);

/// Finds `table` of `db`, which is laid out so.
Result<FoundTable> find_btree_table(Database& db, std::string_view table, const TableLayout& layout,
                                    KeepsOpen keeps = KeepsOpen::kYes);
/// The same; finds the layout with these columns as well.
Result<FoundTable> find_btree_table(Database& db, std::string_view table, std::string_view id_column,
                                    const std::vector<std::string>& columns, KeepsOpen keeps = KeepsOpen::kYes);

}  // namespace stalltrace::store
