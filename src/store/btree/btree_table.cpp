// SPDX-License-Identifier: Apache-2.0
#include "store/btree/btree_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "base/file.h"
#include "base/read_at.h"
#include "store/sqlite/file_numbers.h"
#include "store/sqlite/open.h"
#include "store/sqlite/table_columns.h"

namespace stalltrace::store {
namespace {

/// Reads the file's header; false if the file has another format.
bool read_header(BtreeTable& table) {
  std::array<uint8_t, 100> header{};
  if (read_at(table.fd.get(), header.data(), header.size(), 0) != static_cast<ssize_t>(header.size()) ||
      ::fstat(table.fd.get(), &table.status) != 0) {
    return false;
  }
  constexpr uint32_t kUtf8 = 1;
  const uint32_t stored_size = big_endian(&header[16], 2);
  table.page_size = stored_size == 1 ? 65'536 : stored_size;
  if (!std::has_single_bit(table.page_size) || table.page_size < 512 || big_endian(&header[56], 4) != kUtf8) {
    return false;
  }
  table.usable = table.page_size - header[20];
  const int64_t pages = table.status.st_size / table.page_size;
  table.pages = static_cast<uint32_t>(std::min<int64_t>(pages, std::numeric_limits<uint32_t>::max() - 1));
  return table.usable >= 480;
}

}  // namespace

/// Positions of the columns in a row, from the table's declaration.
Result<TableLayout> find_table_layout(Database& db, std::string_view name, std::string_view id_column,
                                      const std::vector<std::string>& columns) {
  TableLayout table;
  ST_ASSIGN(const std::vector<DeclaredColumn> declared, declared_columns(db, name));
  std::vector<std::string> stored;
  bool plain = true;
  bool has_id = false;
  for (const DeclaredColumn& column : declared) {
    const bool is_id = column.name == id_column;
    plain = plain && !column.has_default && !column.is_hidden && is_id == column.is_key &&
            (!is_id || column.type == "INTEGER");
    if (is_id) {
      has_id = true;
      table.id_column = stored.size();
    }
    stored.push_back(column.name);
  }
  table.stored_columns = stored.size();
  for (const std::string& column : columns) {
    const auto found = std::find(stored.begin(), stored.end(), column);
    table.stored.push_back(found == stored.end() ? kMissingColumn : static_cast<uint8_t>(found - stored.begin()));
  }
  table.plain = plain && has_id && stored.size() < kMostColumns;
  return table;
}

Result<FoundTable> find_btree_table(Database& db, std::string_view name, std::string_view id_column,
                                    const std::vector<std::string>& columns, KeepsOpen keeps) {
  ST_ASSIGN(const TableLayout layout, find_table_layout(db, name, id_column, columns));
  return find_btree_table(db, name, layout, keeps);
}

Result<FoundTable> find_btree_table(Database& db, std::string_view name, const TableLayout& layout, KeepsOpen keeps) {
  if (!is_opened_complete(db)) {
    return FoundTable{nullptr, Fallback::kOpenFile};
  }
  auto table = std::make_shared<BtreeTable>();
  ST_ASSIGN(Statement select, db.prepare("SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = ?"));
  select.bind(1, name);
  if (select.step() != SQLITE_ROW) {
    return FoundTable{nullptr, Fallback::kTableLayout};
  }
  table->root = static_cast<uint32_t>(select.integer(0));
  if (!layout.plain) {
    return FoundTable{nullptr, Fallback::kTableLayout};
  }
  table->stored_columns = layout.stored_columns;
  table->id_column = layout.id_column;
  table->stored = layout.stored;
  table->path = db.path();
  auto opened = open_regular(table->path);
  if (!opened) {
    return FoundTable{nullptr, Fallback::kRefused};
  }
  table->fd = std::move(*opened);
  if (!read_header(*table)) {
    return FoundTable{nullptr, Fallback::kFileHeader};
  }
  if (keeps == KeepsOpen::kNo) {
    table->fd.reset();
  }
  return FoundTable{std::move(table), Fallback::kNone};
}

}  // namespace stalltrace::store
