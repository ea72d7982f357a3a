// SPDX-License-Identifier: Apache-2.0
#include "store/rows/row_block.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <queue>
#include <set>
#include <tuple>

#include "base/clock.h"
#include "store/read/plausible.h"
#include "store/rows/column_bytes.h"
#include "store/schema/bind.h"
#include "store/schema/table.h"

namespace stalltrace::store {
namespace {

constexpr size_t kRowsOfBlock = 512;       // as many of each recording are held while all are read
constexpr size_t kMostRowsOfBlock = 4096;  // that are taken
constexpr size_t kMostRawBytes = 4 << 20;  // likewise; a block is ended early if texts are long
constexpr size_t kRawBytesOfBlock = 256 << 10;
constexpr int kLevel = 3;
constexpr uint8_t kLastForm = static_cast<uint8_t>(IntegerForm::kToSameCall);
constexpr uint8_t kMicroseconds = 0x80;  // beside a column's form

std::unexpected<Error> damaged(std::string_view table, std::string_view what) {
  return fail(fmt::format("the rows of {} that it sends are {}", table, what),
              "use the same version of stalltrace on both sides, and ask again", ErrorKind::kCorrupt);
}

/// Durations of calls and their device's times are kept to the microsecond, as the analysis keeps them
/// (analysis/timeline/timeline.h): what is below is a quarter of all bytes.
template <typename T>
bool in_microseconds(std::string_view column) {
  return std::is_same_v<T, Collective> &&
         (column == "duration_ns" || column == "launch_ns" || column == "kernel_start_ns" || column == "kernel_end_ns");
}

/// Times are near the row's own, durations near nothing; ids and counters follow each other.
template <typename T>
IntegerForm form_of(std::string_view column) {
  if (std::is_same_v<T, Collective> && column == "duration_ns") {
    return IntegerForm::kToSameCall;
  }
  if (column == "kernel_start_ns") {
    return IntegerForm::kToPreviousEnd;
  }
  if (column == "kernel_end_ns") {
    return IntegerForm::kToEnd;
  }
  const ValueKind kind = kind_of_column(column);
  return column == "timestamp_ns"       ? IntegerForm::kToPrevious
         : kind == ValueKind::kTime     ? IntegerForm::kToBegin
         : kind == ValueKind::kDuration ? IntegerForm::kAlone
                                        : IntegerForm::kToPrevious;
}

/// In which order the columns of a row are stored: what others are relative to comes first.
int rank_of(std::string_view column) {
  return column == "timestamp_ns" || column == "seq" || column == "comm_id_hash" ? 0 : column == "duration_ns" ? 1 : 2;
}

}  // namespace

struct BlockColumns {
  struct Column {
    std::string name;
    IntegerForm form = IntegerForm::kToPrevious;
    bool microseconds = false;
    enum class Part : uint8_t { kOther, kBegin, kDuration, kSequence, kCommunicator } part = Part::kOther;
  };
  std::vector<Column> columns;  // in the order in which they are stored
  std::vector<size_t> own;      // of each column of ours: which of `columns` it is, or their number

  void add(std::string name, IntegerForm form, bool microseconds) {
    using Part = Column::Part;
    const Part part = name == "timestamp_ns"   ? Part::kBegin
                      : name == "duration_ns"  ? Part::kDuration
                      : name == "seq"          ? Part::kSequence
                      : name == "comm_id_hash" ? Part::kCommunicator
                                               : Part::kOther;
    columns.push_back({.name = std::move(name), .form = form, .microseconds = microseconds, .part = part});
  }
};

namespace {

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

int64_t in_us(uint64_t ns) { return static_cast<int64_t>(ns) / kNsPerUs; }

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

template <typename T>
BlockColumns columns_of() {
  BlockColumns columns;
  std::vector<std::string> names = column_names<T>();
  std::ranges::stable_sort(names, {}, [](const std::string& name) { return rank_of(name); });
  for (const std::string& name : names) {
    columns.add(name, form_of<T>(name), in_microseconds<T>(name));
  }
  for (const std::string& name : column_names<T>()) {
    columns.own.push_back(static_cast<size_t>(std::ranges::find(names, name) - names.begin()));
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

class Compressor {
 public:
  Compressor() : context_(ZSTD_createCCtx(), ZSTD_freeCCtx) {}
  Result<std::string> compress(std::string_view raw) {
    std::string bytes(ZSTD_compressBound(raw.size()), '\0');
    const size_t size = ZSTD_compressCCtx(context_.get(), bytes.data(), bytes.size(), raw.data(), raw.size(), kLevel);
    if (ZSTD_isError(size) != 0U) {
      return fail("compress rows");
    }
    bytes.resize(size);
    return bytes;
  }

 private:
  std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> context_;
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
    if (rows_.size() == kRowsOfBlock || bytes_ >= kRawBytesOfBlock) {
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
  Compressor compressor_;
  std::vector<T> rows_;
  size_t bytes_ = 0;
  bool begun_ = false;
  Status written_;
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

/// One for all that this thread reads: it takes 100 KB.
ZSTD_DCtx* decompressor() {
  thread_local const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  return context.get();
}

/// Reads blocks of one type.
template <typename T>
class BlockReader {
 public:
  /// Replaces rows() by those of the block. False: it is damaged.
  bool read(const TableBlocks::Block& block) {
    const uint64_t size = ZSTD_getFrameContentSize(block.bytes.data(), block.bytes.size());
    if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR || size > kMostRawBytes) {
      return false;
    }
    raw_.resize(size);
    const size_t got =
        ZSTD_decompressDCtx(decompressor(), raw_.data(), raw_.size(), block.bytes.data(), block.bytes.size());
    if (ZSTD_isError(got) != 0U || got != size) {
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
    if (rows_.size() < count) {
      rows_.resize(count);
    }
    used_ = 0;
    left_out_ = 0;
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
        if (reader.is_integer()) {
          reader.replace(unit.value(reader.integer()));
          bases.note(column.part, reader.integer());
        }
      }
      values.restart();
      each_column(rows_[used_], Extractor(values));
      is_plausible(rows_[used_]) ? ++used_ : ++left_out_;
    }
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
};

/// Gives the row its node's shown id; false: another recording has it.
template <typename T>
bool show(T& row, const ShownNodes& nodes, size_t recording) {
  if constexpr (requires { row.node_id; }) {
    const std::optional<NodeId> shown = nodes.shown(recording, row.node_id);
    if (!shown) {
      return false;
    }
    if (*shown != row.node_id) {
      row.node_id = *shown;
      if constexpr (EventTraits<T>::kKind == TableKind::kEvents) {
        row.event_id = make_event_id(*shown, number_of(row.event_id));
      }
      if constexpr (requires { row.collective_id; }) {
        row.collective_id = row.collective_id == 0 ? 0 : make_event_id(*shown, number_of(row.collective_id));
      }
    }
  }
  return true;
}

/// The rows of one recording, one after the other.
template <typename T>
class Rows {
 public:
  Rows(const TableBlocks& blocks, const ShownNodes& nodes, size_t recording, TimeRange range, BlockReader<T>& reader)
      : blocks_(blocks), nodes_(nodes), recording_(recording), range_(range), reader_(reader) {}

  /// The next row; null at the end.
  Result<const T*> next() {
    for (;;) {
      for (; row_ < taken_.size(); ++row_) {
        if (show(taken_[row_], nodes_, recording_) && belongs_to(taken_[row_], range_)) {
          return &taken_[row_++];
        }
      }
      const auto& all = blocks_.blocks();
      while (block_ < all.size() && (all[block_].begin_ns >= range_.to_ns || all[block_].end_ns < range_.from_ns)) {
        ++block_;
      }
      if (block_ == all.size()) {
        return nullptr;
      }
      if (!reader_.read(all[block_++])) {
        return damaged(blocks_.table(), "damaged");  // they were read once: memory has changed
      }
      const std::span<T> rows = reader_.rows();
      taken_ = rows;
      row_ = 0;
    }
  }

 private:
  const TableBlocks& blocks_;
  const ShownNodes& nodes_;
  size_t recording_;
  TimeRange range_;
  BlockReader<T>& reader_;
  size_t block_ = 0;
  std::span<T> taken_;
  size_t row_ = 0;
};

template <StreamedType T>
Status visit_merged(std::span<const TableBlocks* const> tables, const ShownNodes& nodes, TimeRange range,
                    const EventSource::Visitor<T>& visit) {
  struct Head {
    int64_t time_ns;
    size_t recording;
    auto operator<=>(const Head&) const = default;
  };
  std::vector<std::unique_ptr<BlockReader<T>>> readers(tables.size());
  std::vector<std::optional<Rows<T>>> rows(tables.size());
  std::vector<const T*> current(tables.size());
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heap;
  for (size_t i = 0; i < tables.size(); ++i) {
    if (tables[i] == nullptr || tables[i]->rows() == 0) {
      continue;
    }
    readers[i] = std::make_unique<BlockReader<T>>();
    rows[i].emplace(*tables[i], nodes, i, range, *readers[i]);
    ST_ASSIGN(current[i], rows[i]->next());
    if (current[i] != nullptr) {
      heap.push({current[i]->timestamp_ns, i});
    }
  }
  while (!heap.empty()) {
    const size_t i = heap.top().recording;
    heap.pop();
    do {
      visit(*current[i]);
      ST_ASSIGN(current[i], rows[i]->next());
    } while (current[i] != nullptr && (heap.empty() || Head{current[i]->timestamp_ns, i} < heap.top()));
    if (current[i] != nullptr) {
      heap.push({current[i]->timestamp_ns, i});
    }
  }
  return {};
}

}  // namespace

bool is_table(std::string_view table) {
  return with_type_of(table, []<typename T>() {});
}

Status write_row_blocks(EventSource& source, std::string_view table, TimeRange range, const RowBlockSink& sink) {
  Status status = fail(fmt::format("there is no table {}", table), {}, ErrorKind::kNotFound);
  with_type_of(table, [&]<typename T>() {
    status = [&]() -> Status {
      TableWriter<T> writer(sink);
      if constexpr (StateType<T>) {
        ST_ASSIGN(const std::vector<T> rows, source.all<T>());
        std::ranges::for_each(rows, [&](const T& row) { writer.add(row); });
      } else {
        ST_TRY(source.stream<T>(range, [&](const T& row) { writer.add(row); }));
      }
      return writer.finish();
    }();
  });
  return status;
}

Status TableBlocks::add_header(std::string_view bytes) {
  auto columns = std::make_shared<BlockColumns>();
  uint64_t count = 0;
  if (columns_ != nullptr || !take_varint(bytes, count) || count > kColumnsAtMost) {
    return damaged(table_, "damaged");
  }
  for (uint64_t i = 0; i < count; ++i) {
    std::string_view name;
    if (!take_text(bytes, name) || bytes.empty()) {
      return damaged(table_, "damaged");
    }
    const auto how = static_cast<uint8_t>(bytes.front());
    const auto form = static_cast<uint8_t>(how & ~kMicroseconds);
    if (form > kLastForm) {
      return damaged(table_, "damaged");
    }
    columns->add(std::string(name), static_cast<IntegerForm>(form), (how & kMicroseconds) != 0);
    bytes.remove_prefix(1);
  }
  with_type_of(table_, [&]<typename T>() {
    for (const std::string& name : column_names<T>()) {
      const auto found = std::ranges::find(columns->columns, name, &BlockColumns::Column::name);
      columns->own.push_back(static_cast<size_t>(found - columns->columns.begin()));
    }
  });
  columns_ = std::move(columns);
  return {};
}

template <typename T>
Status TableBlocks::judge(Block& block) {
  thread_local BlockReader<T> reader;
  if (!reader.read(block)) {
    return damaged(table_, "damaged");
  }
  raw_bytes_ += static_cast<int64_t>(reader.raw_bytes());
  left_out_ += reader.left_out();
  block.begin_ns = kForever;
  block.end_ns = std::numeric_limits<int64_t>::min();
  for (const T& row : reader.rows()) {
    ++rows_;
    if constexpr (requires { row.node_id; }) {
      ++rows_of_nodes_[row.node_id];
      if (row.node_id >= NodeId{1} << kNodeIdBits || rows_of_nodes_.size() > kMostRunsOfFile) {
        return damaged(table_, "of nodes that no recording can have");
      }
    }
    if constexpr (StreamedType<T>) {
      if (row.timestamp_ns < last_ns_) {
        return damaged(table_, "not in the order of time");
      }
      last_ns_ = row.timestamp_ns;
      block.begin_ns = std::min(block.begin_ns, EventTraits<T>::begin_ns(row));
      block.end_ns = std::max(block.end_ns, EventTraits<T>::end_ns(row));
    }
  }
  return {};
}

Status TableBlocks::add_block(std::string bytes) {
  if (columns_ == nullptr) {
    return damaged(table_, "without their columns");
  }
  Block block{.bytes = std::move(bytes), .columns = columns_};
  Status judged;
  with_type_of(table_, [&]<typename T>() { judged = judge<T>(block); });
  ST_TRY(judged);
  blocks_.push_back(std::move(block));
  return {};
}

void ShownNodes::add(size_t recording, const std::vector<Node>& nodes, const std::map<NodeId, int64_t>& rows_of_nodes) {
  std::map<NodeId, Node> runs;
  for (const auto& [id, rows] : rows_of_nodes) {
    runs[id].node_id = id;
  }
  for (const Node& node : nodes) {
    runs[node.node_id] = node;
  }
  if (!runs.empty()) {  // else it has nothing that another one could have as well
    shown_[recording];
  }
  for (const auto& [id, node] : runs) {
    const auto rows = rows_of_nodes.find(id);
    plan_.add(node, {.file = recording,
                     .stored = id,
                     .shown = id,
                     .rows = rows == rows_of_nodes.end() ? 0 : rows->second,
                     .runs_in_file = runs.size()});
  }
}

Status ShownNodes::decide() {
  ST_ASSIGN(const std::vector<NodeRun> parts, plan_.parts());
  for (const NodeRun& part : parts) {
    shown_[part.file][part.stored] = part.shown;
  }
  return {};
}

std::optional<NodeId> ShownNodes::shown(size_t recording, NodeId stored) const {
  const auto found = shown_.find(recording);
  const auto id = found == shown_.end() ? std::map<NodeId, NodeId>::const_iterator() : found->second.find(stored);
  return found == shown_.end() || id == found->second.end() ? std::nullopt : std::optional(id->second);
}

bool ShownNodes::is_copy(size_t recording) const {
  const auto found = shown_.find(recording);
  return found != shown_.end() && found->second.empty();
}

Status read_row_blocks(std::span<const TableBlocks* const> tables, const ShownNodes& nodes, EventSource::AnyRows rows) {
  return std::visit(
      [&]<typename T>(std::vector<T>* all) -> Status {
        std::set<int64_t> seen;  // stacks have no node, and one id everywhere
        BlockReader<T> reader;
        for (size_t i = 0; i < tables.size(); ++i) {
          for (size_t at = 0; tables[i] != nullptr && at < tables[i]->blocks().size(); ++at) {
            if (!reader.read(tables[i]->blocks()[at])) {
              return damaged(tables[i]->table(), "damaged");
            }
            for (T& row : reader.rows()) {
              if constexpr (std::is_same_v<T, Stack>) {
                if (!seen.insert(row.stack_id).second) {
                  continue;
                }
              }
              if (show(row, nodes, i)) {
                all->push_back(row);
              }
            }
          }
        }
        return {};
      },
      rows);
}

Result<std::vector<Node>> nodes_of(const TableBlocks& table) {
  std::vector<Node> nodes;
  BlockReader<Node> reader;
  for (const TableBlocks::Block& block : table.blocks()) {
    if (!reader.read(block)) {
      return damaged(table.table(), "damaged");
    }
    nodes.insert(nodes.end(), reader.rows().begin(), reader.rows().end());
  }
  return nodes;
}

Status visit_row_blocks(std::span<const TableBlocks* const> tables, const ShownNodes& nodes, TimeRange range,
                        EventSource::AnyVisitor visitor) {
  return std::visit(
      [&]<typename T>(const EventSource::Visitor<T>* visit) { return visit_merged(tables, nodes, range, *visit); },
      visitor);
}

}  // namespace stalltrace::store
