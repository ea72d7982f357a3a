// SPDX-License-Identifier: Apache-2.0
// Rows straight from the pages of a closed recording (SQLite's documented file format): several times as fast as a
// statement, and on any number of threads. This finds the table in its file (section 1.3), page_scan.h goes through its
// pages, record.h reads a row. They know the plain case only and say when they meet another (a log, rows spilled over
// pages, values of unexpected types, damage): then SQLite itself is to be asked, which reads it or says what is wrong.
// Internal to store/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/handle.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace {

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

/// `table` of `db` with these columns; null where it must be read with SQL.
Result<std::shared_ptr<const BtreeTable>> find_paged_table(Database& db, std::string_view table,
                                                           std::string_view id_column,
                                                           const std::vector<std::string>& columns);

}  // namespace stalltrace
