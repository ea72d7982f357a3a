// SPDX-License-Identifier: Apache-2.0
// Writes rows as blocks: write_row_blocks() of row_block.h.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "store/rows/block_columns.h"
#include "store/rows/block_zstd.h"
#include "store/rows/row_block.h"
#include "store/schema/bind.h"
#include "store/schema/columns.h"

namespace stalltrace::store {
namespace {

constexpr size_t kRowsOfBlock = 512;  // as many of each recording are held while all are read
constexpr size_t kTextBytesOfBlock = 256 << 10;

/// Durations of calls and their device's times are kept to the microsecond, as the analysis keeps them
/// (analysis/timeline/timeline.h): what is below is a quarter of all bytes.
template <typename T>
bool in_microseconds(std::string_view column) {
  return std::is_same_v<T, Collective> &&
         (column == "duration_ns" || column == "launch_ns" || column == "kernel_start_ns" || column == "kernel_end_ns");
}

/// Times are near the row's own, durations near nothing; ids and counters follow each other.
template <typename T>
IntegerForm form_of(std::string_view column, ValueKind kind) {
  if (std::is_same_v<T, Collective> && column == "duration_ns") {
    return IntegerForm::kToSameCall;
  }
  if (column == "kernel_start_ns") {
    return IntegerForm::kToPreviousEnd;
  }
  if (column == "kernel_end_ns") {
    return IntegerForm::kToEnd;
  }
  return column == "timestamp_ns"       ? IntegerForm::kToPrevious
         : kind == ValueKind::kTime     ? IntegerForm::kToBegin
         : kind == ValueKind::kDuration ? IntegerForm::kAlone
                                        : IntegerForm::kToPrevious;
}

/// In which order the columns of a row are stored: what others are relative to comes first.
int rank_of(std::string_view column) {
  return column == "timestamp_ns" || column == "seq" || column == "comm_id_hash" ? 0 : column == "duration_ns" ? 1 : 2;
}

template <typename T>
BlockColumns columns_of() {
  std::vector<Column> own;
  const T row;
  each_column(row, [&](Column column, const auto& /*field*/) { own.push_back(column); });
  std::vector<size_t> stored(own.size());
  std::iota(stored.begin(), stored.end(), size_t{0});
  std::ranges::stable_sort(stored, {}, [&](size_t i) { return rank_of(own[i].name()); });
  BlockColumns columns;
  columns.own.resize(own.size());
  for (const size_t i : stored) {
    columns.own[i] = columns.columns.size();
    const std::string_view name = own[i].name();
    columns.add(std::string(name), form_of<T>(name, own[i].kind()), in_microseconds<T>(name));
  }
  return columns;
}

/// Takes what SQLite stores (schema/bind.h), column after column.
class BlockWriter {
 public:
  explicit BlockWriter(BlockColumns columns)
      : columns_(std::move(columns)), cells_(columns_.own.size()), writers_(columns_.columns.size()) {}

  void begin_row() { next_ = 0; }
  void null() { cell() = {}; }
  void text(std::string_view value) { cell() = {.type = ValueType::kText, .text = value}; }
  void real(double value) { cell() = {.type = ValueType::kReal, .real = value}; }
  void integer(int64_t value) { cell() = {.type = ValueType::kInteger, .integer = value}; }
  void end_row() {
    bases_.begin_row();
    for (size_t i = 0; i < cells_.size(); ++i) {
      write(columns_.columns[i], cells_[i], writers_[i]);
    }
  }

  [[nodiscard]] std::string header() const {
    std::string bytes;
    put_varint(bytes, columns_.columns.size());
    for (const BlockColumns::Column& column : columns_.columns) {
      put_varint(bytes, column.name.size());
      bytes += column.name;
      bytes.push_back(static_cast<char>(static_cast<uint8_t>(column.form) | (column.microseconds ? kMicroseconds : 0)));
    }
    return bytes;
  }
  std::string finish(size_t rows) {
    std::string bytes;
    put_varint(bytes, rows);
    for (ColumnWriter& writer : writers_) {
      writer.finish(bytes);
    }
    bases_ = {};
    return bytes;
  }

 private:
  struct Cell {
    ValueType type = ValueType::kNull;
    int64_t integer = 0;
    double real = 0;
    std::string_view text;
  };
  Cell& cell() { return cells_[columns_.own[next_++]]; }

  void write(const BlockColumns::Column& column, const Cell& cell, ColumnWriter& writer) {
    switch (cell.type) {
      case ValueType::kNull:
        return writer.null();
      case ValueType::kText:
        return writer.text(cell.text);
      case ValueType::kReal:
        return writer.real(cell.real);
      case ValueType::kInteger: {
        const InUnit unit(column, bases_);
        const int64_t stored = unit.stored(cell.integer);
        writer.integer(stored, column.form, unit.base());
        bases_.note(column.part, unit.value(stored));
      }
    }
  }

  BlockColumns columns_;
  std::vector<Cell> cells_;  // of one row, in the order in which they are stored
  std::vector<ColumnWriter> writers_;
  size_t next_ = 0;
  Bases bases_;
};

struct IntoBlock {
  BlockWriter* to;
  void null() const { to->null(); }
  void text(std::string_view value) const { to->text(value); }
  void real(double value) const { to->real(value); }
  void integer(int64_t value) const { to->integer(value); }
};

size_t text_bytes(const auto& row) {
  size_t bytes = 0;
  each_column(row, [&]<typename Field>(const char* /*name*/, const Field& field) {
    if constexpr (std::is_same_v<Field, std::string>) {
      bytes += field.size();
    } else if constexpr (requires { field.value.size(); }) {
      bytes += field.value.size();
    }
  });
  return bytes;
}

template <typename T>
class TableWriter {
 public:
  explicit TableWriter(const RowBlockSink& sink) : sink_(sink), writer_(columns_of<T>()) {}

  /// After the first error the others are ignored.
  void add(const T& row) {
    if (!written_) {
      return;
    }
    rows_.push_back(row);
    bytes_ += text_bytes(row);
    if (rows_.size() == kRowsOfBlock || bytes_ >= kTextBytesOfBlock) {
      written_ = write();
    }
  }
  Status finish() {
    ST_TRY(written_);
    return rows_.empty() ? Status() : write();
  }

 private:
  Status write() {
    if (!begun_) {
      begun_ = true;
      ST_TRY(sink_.header(writer_.header()));
    }
    if constexpr (std::is_same_v<T, Collective>) {
      // The calls of one process follow each other; the reader puts them in order.
      std::ranges::stable_sort(rows_, {}, [](const Collective& row) { return std::tuple(row.pid, row.comm_ptr); });
    }
    for (const T& row : rows_) {
      writer_.begin_row();
      each_column(row, FieldWriter(IntoBlock{&writer_}));
      writer_.end_row();
    }
    ST_ASSIGN(const std::string block, compressor_.compress(writer_.finish(rows_.size())));
    rows_.clear();
    bytes_ = 0;
    return sink_.block(block);
  }

  const RowBlockSink& sink_;
  BlockWriter writer_;
  BlockCompressor compressor_;
  std::vector<T> rows_;
  size_t bytes_ = 0;
  bool begun_ = false;
  Status written_;
};

/// The ids of a recording's nodes after which rows are wanted.
class After {
 public:
  explicit After(std::span<const EventId> ids) {
    for (const EventId id : ids) {
      EventId& last = last_.try_emplace(node_of(id), id).first->second;
      last = std::max(last, id);
    }
  }
  [[nodiscard]] bool wants(EventId id) const {
    const auto last = last_.find(node_of(id));
    return last == last_.end() || id > last->second;
  }

 private:
  std::map<NodeId, EventId> last_;
};

}  // namespace

bool has_event_ids(std::string_view table) {
  bool has = false;
  with_type_of(table, [&]<typename T>() { has = EventTraits<T>::kKind == TableKind::kEvents; });
  return has;
}

Status write_row_blocks(EventSource& source, std::string_view table, TimeRange range, const RowBlockSink& sink,
                        std::span<const EventId> after) {
  const After ids(after);
  Status status = fail(fmt::format("there is no table {}", table), {}, ErrorKind::kNotFound);
  with_type_of(table, [&]<typename T>() {
    status = [&]() -> Status {
      TableWriter<T> writer(sink);
      if constexpr (StateType<T>) {
        ST_ASSIGN(const std::vector<T> rows, source.all<T>());
        std::ranges::for_each(rows, [&](const T& row) { writer.add(row); });
      } else if constexpr (EventTraits<T>::kKind == TableKind::kEvents) {
        ST_TRY(source.stream<T>(range, [&](const T& row) {
          if (ids.wants(row.event_id)) {
            writer.add(row);
          }
        }));
      } else {
        ST_TRY(source.stream<T>(range, [&](const T& row) { writer.add(row); }));
      }
      return writer.finish();
    }();
  });
  return status;
}

}  // namespace stalltrace::store
