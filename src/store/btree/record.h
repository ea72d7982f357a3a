// SPDX-License-Identifier: Apache-2.0
// One row of a table in a file's page (SQLite's documented file format, section 2.1): a header with each value's type
// and length, then the values. Internal to store/.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "store/btree/btree_table.h"
#include "store/sqlite/file_numbers.h"

namespace stalltrace::store {

/// The position of a value after the row's header.
struct RecordValue {
  uint32_t type = 0;  // serial type of the file format
  uint32_t offset = 0;
};

/// The values of a row in its page, in order: integer() and the other readers read the column that next() has reached.
class RecordColumns {
 public:
  RecordColumns(const RecordValue* first, const uint8_t* body, int64_t id) : value_(first), body_(body), id_(id) {}

  /// True if some value had another type than the requested one.
  [[nodiscard]] bool type_mismatch() const { return odd_; }

  void next() { ++value_; }
  [[nodiscard]] bool is_null() const { return value_->type == kNull; }
  [[nodiscard]] int64_t integer() {
    if (value_->type - 1U < kUnused.size()) [[likely]] {
      return static_cast<int64_t>(eight_bytes(body_ + value_->offset)) >> kUnused[value_->type - 1];
    }
    return constant();
  }
  [[nodiscard]] double real() {
    return value_->type == kReal ? std::bit_cast<double>(eight_bytes(body_ + value_->offset))
                                 : static_cast<double>(integer());
  }
  [[nodiscard]] std::string_view text() {
    if (value_->type >= kFirstText && value_->type % 2 == 1) {
      return {reinterpret_cast<const char*>(body_ + value_->offset), (value_->type - kFirstText) / 2};
    }
    odd_ = odd_ || value_->type != kNull;
    return {};
  }

  // Serial types. SQLite never stores 10; here it means the row's id.
  static constexpr uint32_t kNull = 0;
  static constexpr uint32_t kReal = 7;
  static constexpr uint32_t kZero = 8;
  static constexpr uint32_t kOne = 9;
  static constexpr uint32_t kRowId = 10;
  static constexpr uint32_t kFirstText = 13;

 private:
  /// Integers of 1, 2, 3, 4, 6 and 8 bytes have types 1 to 6: the number of unused bits in eight bytes.
  static constexpr std::array<uint8_t, 6> kUnused{56, 48, 40, 32, 16, 0};

  int64_t constant() {
    if (value_->type == kRowId) {
      return id_;
    }
    odd_ = odd_ || (value_->type != kNull && value_->type != kZero && value_->type != kOne);
    return value_->type == kOne ? 1 : 0;
  }

  const RecordValue* value_;
  const uint8_t* body_;
  int64_t id_;
  bool odd_ = false;
};

/// Reads the headers of a table's rows. Used by one thread at a time.
class RecordReader {
 public:
  explicit RecordReader(const BtreeTable& table);

  /// Finds the values of row `id` in [begin, end); false if there is no valid row. kReadBehind bytes after `end` must
  /// be readable.
  bool take(int64_t id, const uint8_t* begin, const uint8_t* end);
  /// Valid after a successful take().
  [[nodiscard]] RecordColumns columns() const { return {layout_->values.data(), body_, id_}; }

 private:
  static constexpr size_t kHeaderWords = 8;
  using Words = std::array<uint64_t, kHeaderWords>;
  /// A header's layout of the requested columns. Rows of one kind share it, so the last few are kept. Without that,
  /// reading takes 2.1 times as long (bench/recording/reader_bench.cpp, 2026-11-22, 11 paired rounds, 0.9 to 2.8).
  struct Layout {
    uint64_t hash = 0;
    uint64_t header_bytes = 0;  // 0: none
    Words header{};             // in units of eight bytes
    uint64_t body_size = 0;
    std::vector<RecordValue> values;
  };
  static constexpr size_t kWays = 4;
  /// Layouts of headers with equal hashes.
  struct Set {
    std::array<Layout, kWays> layouts;
    size_t oldest = 0;
  };
  static constexpr size_t kSets = 16;

  const Layout* find(const uint8_t* begin, uint64_t bytes, const uint8_t* types);
  bool parse(const uint8_t* at, const uint8_t* header_end, Layout& layout);

  const BtreeTable* table_;
  std::array<Set, kSets> sets_;
  Layout long_header_;                                  // a header longer than kHeaderWords is parsed again each time
  std::array<RecordValue, kMostColumns + 1> stored_{};  // of the current header; the last one stays NULL
  const Layout* layout_ = nullptr;
  const uint8_t* body_ = nullptr;
  int64_t id_ = 0;
};

}  // namespace stalltrace::store
