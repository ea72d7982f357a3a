// SPDX-License-Identifier: Apache-2.0
// Rows out of a block that any host may have made. Internal to store/rows.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "store/read/plausible.h"
#include "store/rows/block_columns.h"
#include "store/rows/block_zstd.h"
#include "store/rows/row_block.h"
#include "store/schema/bind.h"

namespace stalltrace::store {

inline constexpr size_t kMostRowsOfBlock = 4096;  // that are taken
inline constexpr size_t kMostRawBytes = 4 << 20;  // likewise
/// Likewise, of all texts of a block, each as often as it comes: a row refers to a text with one byte. The writer ends
/// a block at far less, except one row whose own text is as large as a block may be.
inline constexpr size_t kMostTextBytes = 2 * kMostRawBytes;

/// The fields of a row of a block, for Extractor.
class BlockRow {
 public:
  BlockRow(std::vector<ColumnReader>& readers, const std::vector<size_t>& own) : readers_(readers), own_(own) {}
  void restart() { at_ = 0; }
  void next() { ++at_; }
  [[nodiscard]] bool is_null() const { return missing() || reader().is_null(); }
  [[nodiscard]] int64_t integer() const { return missing() ? 0 : reader().integer(); }
  [[nodiscard]] double real() const { return missing() ? 0 : reader().real(); }
  [[nodiscard]] std::string_view text() const { return missing() ? std::string_view() : reader().text(); }

 private:
  [[nodiscard]] bool missing() const { return own_[at_] == readers_.size(); }
  [[nodiscard]] const ColumnReader& reader() const { return readers_[own_[at_]]; }

  std::vector<ColumnReader>& readers_;
  const std::vector<size_t>& own_;
  size_t at_ = 0;
};

/// Reads blocks of one type.
template <typename T>
class BlockReader {
 public:
  /// Replaces rows() by those of the block. False: it is damaged.
  bool read(const TableBlocks::Block& block) {
    if (!decompress_block(block.bytes, kMostRawBytes, raw_)) {
      return false;
    }
    std::string_view rest(raw_);
    uint64_t count = 0;
    if (!take_varint(rest, count) || count == 0 || count > kMostRowsOfBlock) {
      return false;
    }
    readers_.resize(block.columns->columns.size());
    for (ColumnReader& reader : readers_) {
      if (!reader.open(rest, count)) {
        return false;
      }
    }
    return rest.empty() && read_rows(*block.columns, count);
  }
  [[nodiscard]] std::span<T> rows() { return {rows_.data(), used_}; }
  [[nodiscard]] int64_t left_out() const { return left_out_; }
  [[nodiscard]] size_t raw_bytes() const { return raw_.size(); }

 private:
  bool read_rows(const BlockColumns& columns, uint64_t count) {
    if (held_text_bytes_ > kMostTextBytes) {
      rows_.clear();  // a row keeps the room of the largest text that it ever had
      held_text_bytes_ = 0;
    }
    if (rows_.size() < count) {
      rows_.resize(count);
    }
    used_ = 0;
    left_out_ = 0;
    size_t text_bytes = 0;
    Bases bases;
    BlockRow values(readers_, columns.own);
    for (uint64_t i = 0; i < count; ++i) {
      bases.begin_row();
      for (size_t at = 0; at < readers_.size(); ++at) {
        const BlockColumns::Column& column = columns.columns[at];
        ColumnReader& reader = readers_[at];
        const InUnit unit(column, bases);
        if (!reader.next(column.form, unit.base())) {
          return false;
        }
        text_bytes += reader.text().size();
        if (reader.is_integer()) {
          reader.replace(unit.value(reader.integer()));
          bases.note(column.part, reader.integer());
        }
      }
      if (text_bytes > kMostTextBytes) {
        return false;
      }
      values.restart();
      each_column(rows_[used_], Extractor(values));
      is_plausible(rows_[used_]) ? ++used_ : ++left_out_;
    }
    held_text_bytes_ += text_bytes;
    if constexpr (EventTraits<T>::kKind == TableKind::kEvents) {
      const auto order = [](const T& row) { return std::tuple(row.timestamp_ns, row.event_id); };
      if (!std::ranges::is_sorted(rows(), {}, order)) {
        std::ranges::sort(rows(), {}, order);
      }
    }
    return true;
  }

  std::string raw_;
  std::vector<ColumnReader> readers_;
  std::vector<T> rows_;
  size_t used_ = 0;
  int64_t left_out_ = 0;
  size_t held_text_bytes_ = 0;  // by rows_, at most
};

}  // namespace stalltrace::store
