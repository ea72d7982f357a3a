// SPDX-License-Identifier: Apache-2.0
// The values of one column of a block of rows, as bytes: small where values repeat or follow each other. Any
// host may have made what is read. Internal to store/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace stalltrace::store {

void put_varint(std::string& to, uint64_t value);
/// Takes it from the front of `from`; false: it is cut short, or larger than 64 bits.
bool take_varint(std::string_view& from, uint64_t& value);
/// Takes a text with its length before it.
bool take_text(std::string_view& from, std::string_view& text);

/// What an integer is stored relative to.
enum class IntegerForm : uint8_t {
  kToPrevious,     // the value before it in its column
  kAlone,          // nothing
  kToBegin,        // the row's begin
  kToEnd,          // the row's end
  kToPreviousEnd,  // the end of the row before: a device begins a call when it has done the one before
  kToSameCall,     // the end of another row of the same call, as a duration: all ranks of a call end together
};

enum class ValueType : uint8_t { kNull, kInteger, kReal, kText };

class ColumnWriter {
 public:
  void null() { types_.push_back(static_cast<char>(ValueType::kNull)); }
  /// `base`: what it is relative to, unless that is the value before it.
  void integer(int64_t value, IntegerForm form, int64_t base);
  void real(double value);
  void text(std::string_view value);

  /// Appends what was written, and forgets it.
  void finish(std::string& to);

 private:
  std::string types_;
  std::string values_;
  int64_t last_ = 0;
  std::unordered_map<std::string, uint64_t> texts_;  // their numbers, from 1
};

class ColumnReader {
 public:
  /// Takes a column of `rows` values from the front of `from`, which must outlive the object. False: it is damaged.
  bool open(std::string_view& from, uint64_t rows);
  /// Goes to the next value. False: it is damaged.
  bool next(IntegerForm form, int64_t base);

  [[nodiscard]] bool is_null() const { return type_ == ValueType::kNull; }
  [[nodiscard]] bool is_integer() const { return type_ == ValueType::kInteger; }
  /// Gives the integer another value for its reader; what follows is still relative to the one that is stored.
  void replace(int64_t value) { integer_ = value; }
  [[nodiscard]] int64_t integer() const { return type_ == ValueType::kInteger ? integer_ : 0; }
  [[nodiscard]] double real() const;
  [[nodiscard]] std::string_view text() const { return type_ == ValueType::kText ? text_ : std::string_view(); }

 private:
  bool next_text();

  std::string_view types_;  // one for each row; empty: all have type_
  std::string_view values_;
  ValueType type_ = ValueType::kNull;
  int64_t integer_ = 0;
  int64_t last_ = 0;
  double real_ = 0;
  std::string_view text_;
  std::vector<std::string_view> texts_;
};

}  // namespace stalltrace::store
