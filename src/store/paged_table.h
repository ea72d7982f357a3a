// SPDX-License-Identifier: Apache-2.0
// Rows straight from the pages of a closed recording (SQLite's documented file format, sections 1.3, 1.5 and 2.1):
// several times as fast as a statement, and on any thread. It reads the plain case only and says when it meets
// another (a log, rows spilled over pages, values of unexpected types, damage): then SQLite itself is to be asked,
// which reads it or says what is wrong. Internal to store/.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/handle.h"
#include "store/sqlite.h"

namespace stalltrace {

/// Where a table lies in its file. Never altered after it is made, hence shared by threads.
struct PagedTable {
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
Result<std::shared_ptr<const PagedTable>> find_paged_table(Database& db, std::string_view table,
                                                           std::string_view id_column,
                                                           const std::vector<std::string>& columns);

/// One row's values, where they lie in its page. Integer() and the like read the column that next() has come to.
class RecordColumns {
 public:
  explicit RecordColumns(const PagedTable& table) : table_(&table) {}
  RecordColumns(const RecordColumns&) = delete;
  RecordColumns& operator=(const RecordColumns&) = delete;

  /// Takes the record in [begin, end) of row `id`; false when it is none. Some bytes behind `end` can be read.
  bool take(int64_t id, const uint8_t* begin, const uint8_t* end);
  /// Some value was not of the type that was asked for.
  [[nodiscard]] bool odd() const { return odd_; }

  void next() { ++column_; }
  [[nodiscard]] bool is_null() const { return here().type == kNull; }
  [[nodiscard]] int64_t integer() {
    const Value& value = here();
    if (value.type - 1U < kUnused.size()) [[likely]] {
      return eight_bytes(body_ + value.offset) >> kUnused[value.type - 1];
    }
    return constant(value.type);
  }
  [[nodiscard]] double real();
  [[nodiscard]] std::string_view text() {
    const Value& value = here();
    if (value.type >= kFirstText && value.type % 2 == 1) {
      return {reinterpret_cast<const char*>(body_ + value.offset), (value.type - kFirstText) / 2};
    }
    odd_ = odd_ || value.type != kNull;
    return {};
  }

 private:
  // Serial types of the file format; 10 is never stored and stands for the row's id here.
  static constexpr uint32_t kNull = 0;
  static constexpr uint32_t kReal = 7;
  static constexpr uint32_t kZero = 8;
  static constexpr uint32_t kOne = 9;
  static constexpr uint32_t kRowId = 10;
  static constexpr uint32_t kFirstText = 13;
  struct Value {
    uint32_t type = kNull;
    uint32_t offset = 0;
  };

  /// Integers of 1, 2, 3, 4, 6 and 8 bytes are types 1 to 6: how many bits of eight bytes are not theirs.
  static constexpr std::array<uint8_t, 6> kUnused{56, 48, 40, 32, 16, 0};

  static int64_t eight_bytes(const uint8_t* bytes) {
    uint64_t value = 0;
    std::memcpy(&value, bytes, sizeof(value));
    return static_cast<int64_t>(std::endian::native == std::endian::little ? __builtin_bswap64(value) : value);
  }
  /// What a row's header says. Rows of one kind of call share it: the last few are kept.
  struct Layout {
    std::vector<uint8_t> header;
    uint64_t body_size = 0;
    std::array<Value, kMostColumns + 1> values{};  // the last one stays NULL: what the table lacks
  };

  int64_t constant(uint32_t type);
  bool parse_header(const uint8_t* at, const uint8_t* header_end, Layout& layout) const;
  [[nodiscard]] const Value& here() const { return layout_->values[table_->stored[column_]]; }

  const PagedTable* table_;
  std::array<Layout, 8> layouts_;
  const Layout* layout_ = layouts_.data();
  const uint8_t* body_ = nullptr;
  int64_t id_ = 0;
  size_t column_ = 0;
  bool odd_ = false;
};

/// Goes through a table's rows. For one thread at a time.
class PageScan {
 public:
  explicit PageScan(std::shared_ptr<const PagedTable> table) : table_(std::move(table)), columns_(*table_) {}

  /// Calls visit(columns) for each row with an id in [first_id, end_id), ascending. False when SQLite has to be asked
  /// instead; rows may have been visited until then.
  template <typename Visit>
  bool read(int64_t first_id, int64_t end_id, Visit&& visit) {
    return each_row(first_id, end_id, [&](int64_t id, const uint8_t* begin, const uint8_t* end) {
      if (!columns_.take(id, begin, end)) {
        return false;
      }
      visit(columns_);
      return !columns_.odd();
    });
  }

 private:
  using Row = std::function<bool(int64_t, const uint8_t*, const uint8_t*)>;
  bool each_row(int64_t first_id, int64_t end_id, const Row& row);
  bool load(size_t level, uint32_t page, uint32_t count);
  bool interior(size_t level);
  bool leaf(const uint8_t* page);

  static constexpr size_t kMostLevels = 20;  // as SQLite's own limit
  static constexpr uint32_t kMostAtOnce = 16;
  static constexpr size_t kPadding = 8;  // an integer at the very end of a page is read by eight bytes

  std::shared_ptr<const PagedTable> table_;
  RecordColumns columns_;
  std::array<std::vector<uint8_t>, kMostLevels + 1> levels_;  // the pages on the way down; at a leaf some neighbours
  int64_t first_id_ = 0;
  int64_t end_id_ = 0;
  int64_t last_id_ = 0;     // ids ascend, or the file is damaged
  int64_t pages_left_ = 0;  // none is visited twice, or the file is damaged
  const Row* row_ = nullptr;
};

}  // namespace stalltrace
