// SPDX-License-Identifier: Apache-2.0
#include "store/rows/column_bytes.h"

#include <bit>
#include <cstring>

namespace stalltrace::store {
namespace {

constexpr char kMixed = 4;  // of a column whose values have several types; else their type
constexpr int kBitsInByte = 7;
constexpr int kMostBits = 64;

uint64_t zigzag(uint64_t difference) {
  return (difference << 1U) ^ (static_cast<int64_t>(difference) < 0 ? ~uint64_t{0} : 0);
}
uint64_t from_zigzag(uint64_t value) { return (value >> 1U) ^ ((value & 1U) != 0 ? ~uint64_t{0} : 0); }

}  // namespace

void put_varint(std::string& to, uint64_t value) {
  constexpr uint64_t kLow = 0x7f;
  for (; value > kLow; value >>= kBitsInByte) {
    to.push_back(static_cast<char>(value | (kLow + 1)));
  }
  to.push_back(static_cast<char>(value));
}

bool take_varint(std::string_view& from, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < kMostBits && !from.empty(); shift += kBitsInByte) {
    const auto byte = static_cast<uint8_t>(from.front());
    from.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7fU) << shift;
    if (byte < 0x80U) {
      return true;
    }
  }
  return false;
}

bool take_text(std::string_view& from, std::string_view& text) {
  uint64_t size = 0;
  if (!take_varint(from, size) || size > from.size()) {
    return false;
  }
  text = from.substr(0, size);
  from.remove_prefix(size);
  return true;
}

void ColumnWriter::integer(int64_t value, IntegerForm form, int64_t base) {
  types_.push_back(static_cast<char>(ValueType::kInteger));
  const int64_t before = form == IntegerForm::kToPrevious ? last_ : base;
  put_varint(values_, zigzag(static_cast<uint64_t>(value) - static_cast<uint64_t>(before)));
  last_ = value;
}

void ColumnWriter::real(double value) {
  types_.push_back(static_cast<char>(ValueType::kReal));
  const auto bits = std::bit_cast<uint64_t>(value);
  values_.append(reinterpret_cast<const char*>(&bits), sizeof bits);
}

void ColumnWriter::text(std::string_view value) {
  types_.push_back(static_cast<char>(ValueType::kText));
  const auto [known, fresh] = texts_.try_emplace(std::string(value), texts_.size() + 1);
  put_varint(values_, fresh ? 0 : known->second);
  if (fresh) {
    put_varint(values_, value.size());
    values_ += value;
  }
}

void ColumnWriter::finish(std::string& to) {
  const bool one_type = types_.find_first_not_of(types_.empty() ? '\0' : types_.front()) == std::string::npos;
  to.push_back(one_type ? types_.empty() ? '\0' : types_.front() : kMixed);
  if (!one_type) {
    to += types_;
  }
  put_varint(to, values_.size());
  to += values_;
  types_.clear();
  values_.clear();
  last_ = 0;
  texts_.clear();
}

bool ColumnReader::open(std::string_view& from, uint64_t rows) {
  if (from.empty()) {
    return false;
  }
  const char type = from.front();
  from.remove_prefix(1);
  types_ = {};
  if (type == kMixed) {
    if (from.size() < rows) {
      return false;
    }
    types_ = from.substr(0, rows);
    from.remove_prefix(rows);
  } else if (type < 0 || type > static_cast<char>(ValueType::kText)) {
    return false;
  } else {
    type_ = static_cast<ValueType>(type);
  }
  last_ = 0;
  texts_.clear();
  return take_text(from, values_);
}

bool ColumnReader::next(IntegerForm form, int64_t base) {
  if (!types_.empty()) {
    const char type = types_.front();
    types_.remove_prefix(1);
    if (type < 0 || type > static_cast<char>(ValueType::kText)) {
      return false;
    }
    type_ = static_cast<ValueType>(type);
  }
  switch (type_) {
    case ValueType::kNull:
      return true;
    case ValueType::kInteger: {
      uint64_t value = 0;
      if (!take_varint(values_, value)) {
        return false;
      }
      const int64_t before = form == IntegerForm::kToPrevious ? last_ : base;
      integer_ = static_cast<int64_t>(static_cast<uint64_t>(before) + from_zigzag(value));
      last_ = integer_;  // as it is stored
      return true;
    }
    case ValueType::kReal: {
      uint64_t bits = 0;
      if (values_.size() < sizeof bits) {
        return false;
      }
      std::memcpy(&bits, values_.data(), sizeof bits);
      values_.remove_prefix(sizeof bits);
      real_ = std::bit_cast<double>(bits);
      return true;
    }
    case ValueType::kText:
      return next_text();
  }
  return false;
}

bool ColumnReader::next_text() {
  uint64_t number = 0;
  if (!take_varint(values_, number) || number > texts_.size()) {
    return false;
  }
  if (number > 0) {
    text_ = texts_[number - 1];
    return true;
  }
  if (!take_text(values_, text_)) {
    return false;
  }
  texts_.push_back(text_);
  return true;
}

double ColumnReader::real() const {
  return type_ == ValueType::kReal ? real_ : type_ == ValueType::kInteger ? static_cast<double>(integer_) : 0;
}

}  // namespace stalltrace::store
