// SPDX-License-Identifier: Apache-2.0
// The columns of a block of rows, and what each integer of a row is stored relative to. Internal to store/rows.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/event_types.h"
#include "store/rows/column_bytes.h"

namespace stalltrace::store {

inline constexpr uint8_t kMicroseconds = 0x80;  // in the byte of a column's form

/// "the rows of TABLE that it sends are WHAT"
std::unexpected<Error> bad_rows(std::string_view table, std::string_view what);

struct BlockColumns {
  struct Column {
    std::string name;
    IntegerForm form = IntegerForm::kToPrevious;
    bool microseconds = false;
    enum class Part : uint8_t { kOther, kBegin, kDuration, kSequence, kCommunicator } part = Part::kOther;
  };
  std::vector<Column> columns;  // in the order in which they are stored
  std::vector<size_t> own;      // of each column of ours: which of `columns` it is, or their number

  void add(std::string name, IntegerForm form, bool microseconds);
};

/// What the integers of a row are relative to, from the columns before and the rows before in the block. All sums wrap
/// around: what is read may be anything.
class Bases {
 public:
  void begin_row() {
    previous_end_ns_ = end_ns_;
    begin_ns_ = end_ns_ = seq_ = communicator_ = 0;
  }
  [[nodiscard]] uint64_t base(IntegerForm form) const {
    switch (form) {
      case IntegerForm::kToBegin:
        return begin_ns_;
      case IntegerForm::kToEnd:
        return end_ns_;
      case IntegerForm::kToPreviousEnd:
        return previous_end_ns_;
      case IntegerForm::kToSameCall: {
        const auto found = ends_ns_.find({communicator_, seq_});
        return found == ends_ns_.end() ? 0 : found->second - begin_ns_;
      }
      case IntegerForm::kToPrevious:
      case IntegerForm::kAlone:
        break;
    }
    return 0;
  }
  void note(BlockColumns::Column::Part part, int64_t number) {
    using Part = BlockColumns::Column::Part;
    const auto value = static_cast<uint64_t>(number);
    switch (part) {
      case Part::kBegin:
        begin_ns_ = end_ns_ = value;
        break;
      case Part::kDuration:
        end_ns_ = begin_ns_ + value;
        ends_ns_.try_emplace({communicator_, seq_}, end_ns_);
        break;
      case Part::kSequence:
        seq_ = value;
        break;
      case Part::kCommunicator:
        communicator_ = value;
        break;
      case Part::kOther:
        break;
    }
  }

 private:
  uint64_t begin_ns_ = 0;
  uint64_t end_ns_ = 0;
  uint64_t previous_end_ns_ = 0;
  uint64_t seq_ = 0;
  uint64_t communicator_ = 0;
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> ends_ns_;  // of the first row of each call
};

inline int64_t in_us(uint64_t ns) { return static_cast<int64_t>(ns) / kNsPerUs; }

/// An integer as it is stored, and what it is relative to: both in the unit of the column.
class InUnit {
 public:
  InUnit(const BlockColumns::Column& column, const Bases& bases)
      : microseconds_(column.microseconds), base_(bases.base(column.form)) {
    if (microseconds_) {
      const bool time = column.form == IntegerForm::kToEnd || column.form == IntegerForm::kToPreviousEnd;
      origin_ = time ? bases.base(IntegerForm::kToBegin) : 0;
      base_ = static_cast<uint64_t>(in_us(base_ - origin_));
    }
  }
  [[nodiscard]] int64_t base() const { return static_cast<int64_t>(base_); }
  [[nodiscard]] int64_t stored(int64_t value) const {
    return microseconds_ ? in_us(static_cast<uint64_t>(value) - origin_) : value;
  }
  [[nodiscard]] int64_t value(int64_t stored) const {
    return microseconds_ ? static_cast<int64_t>(static_cast<uint64_t>(stored) * uint64_t{kNsPerUs} + origin_) : stored;
  }

 private:
  bool microseconds_;
  uint64_t base_;
  uint64_t origin_ = 0;  // of the time that is stored in microseconds
};

/// Calls f.operator()<T>() for the type of `table`; false: there is none.
template <typename F>
bool with_type_of(std::string_view table, F&& f) {
  bool found = false;
  for_each_type(kEventTypes, [&]<typename T>() {
    if (EventTraits<T>::kTable == table) {
      found = true;
      f.template operator()<T>();
    }
  });
  return found;
}

}  // namespace stalltrace::store
