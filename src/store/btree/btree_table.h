// SPDX-License-Identifier: Apache-2.0
// Rows straight from the pages of a closed recording (SQLite's documented file format), on any number of threads.
// This finds the table in its file (section 1.3), btree_scan.h goes through its pages, record.h reads a row. They read
// the plain case only and return the reason where they meet another (fallback.h): then the rows are read with SQL, and
// SQLite reads them or reports the damage.
//
// What it gains (bench/recording/reader_bench.cpp, 2026-11-22, 1 million collectives, 2 cores, 7 rounds): SQL took 8.0
// times as long (5.3 to 8.6) on one thread and 8.0 times (7.1 to 11.4) on two, each with a connection of its own, and
// 7.7 and 7.6 times where it read only the columns that `explain` uses. Below 1.5 times this folder should go.
// Internal to store/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/handle.h"
#include "store/btree/fallback.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace::store {

/// Where a table lies in its file. Never altered after it is made, hence shared by threads.
struct BtreeTable {
  UniqueFd fd;
  uint32_t page_size = 0;
  uint32_t usable = 0;  // bytes of a page
  uint32_t pages = 0;
  uint32_t root = 0;
  size_t stored_columns = 0;
  size_t id_column = 0;         // stored as NULL: its value is the row's id
  std::vector<uint8_t> stored;  // of each column asked for: its place in the row; kMissingColumn for none
};
inline constexpr size_t kMostColumns = 64;
inline constexpr uint8_t kMissingColumn = kMostColumns;

/// A table, or why it must be read with SQL.
struct FoundTable {
  std::shared_ptr<const BtreeTable> table;  // null with a reason
  Fallback reason = Fallback::kNone;
};

/// `table` of `db` with these columns.
Result<FoundTable> find_btree_table(Database& db, std::string_view table, std::string_view id_column,
                                    const std::vector<std::string>& columns);

}  // namespace stalltrace::store
