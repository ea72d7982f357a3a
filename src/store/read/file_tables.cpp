// SPDX-License-Identifier: Apache-2.0
#include "store/read/file_tables.h"

#include <algorithm>
#include <array>
#include <functional>

#include "base/file.h"
#include "base/read_at.h"
#include "store/sqlite/file_numbers.h"

namespace stalltrace::store {
namespace {

/// Where the file's header has the size of its pages, in two bytes; 1 stands for 65,536 (section 1.3).
constexpr int64_t kPageSizeAt = 16;
constexpr int64_t kLargestPage = 65'536;

int64_t page_bytes_of(int file) {
  std::array<uint8_t, 2> field{};
  if (read_at(file, field.data(), field.size(), kPageSizeAt) != static_cast<ssize_t>(field.size())) {
    return 0;
  }
  const uint32_t bytes = big_endian(field.data(), 2);
  return bytes == 1 ? kLargestPage : bytes;
}

/// Bytes of a page's header up to its number of cells (section 1.6 of the file format).
constexpr size_t kHeadBytes = 5;
constexpr uint8_t kLeafOfIds = 0x0d;
constexpr uint8_t kLeafOfKeys = 0x0a;  // of a table WITHOUT ROWID

/// True if the page is a leaf without cells: as the root of a table, a table without rows.
bool is_empty_leaf(int file, int64_t offset) {
  std::array<uint8_t, kHeadBytes> head{};
  return read_at(file, head.data(), head.size(), offset) == static_cast<ssize_t>(head.size()) &&
         (head[0] == kLeafOfIds || head[0] == kLeafOfKeys) && big_endian(&head[3], 2) == 0;
}

}  // namespace

Result<FileTables> FileTables::read(Database& db, bool complete) {
  FileTables tables;
  ST_ASSIGN(Statement select, db.prepare("SELECT name, rootpage, sql FROM sqlite_schema WHERE type = 'table'"));
  const auto file = complete ? open_regular(db.path()) : Result<UniqueFd>(UniqueFd());
  const int64_t page_bytes = complete && file ? page_bytes_of(file->get()) : 0;
  tables.complete_ = page_bytes > 0;
  int code = SQLITE_DONE;
  while ((code = select.step()) == SQLITE_ROW) {
    tables.declarations_ += select.text(2);
    tables.declarations_ += ';';
    const int64_t root = select.integer(1);
    if (tables.complete_ && (root < 2 || !is_empty_leaf(file->get(), (root - 1) * page_bytes))) {
      tables.with_rows_.emplace_back(select.text(0));
    }
  }
  if (code != SQLITE_DONE) {
    return fail_sqlite(db.get(), db.path() + ": schema");
  }
  std::ranges::sort(tables.with_rows_);
  return tables;
}

bool FileTables::is_empty(std::string_view table) const {
  return complete_ && !std::ranges::binary_search(with_rows_, table, std::less<>());
}

}  // namespace stalltrace::store
