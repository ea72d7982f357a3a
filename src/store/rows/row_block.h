// SPDX-License-Identifier: Apache-2.0
// Rows of recordings on their way to another host: blocks of some hundred rows of one table, column by column,
// compressed. Of collectives, durations and the device's times are kept to the microsecond, as the analysis keeps them;
// everything else comes as it was. Any host may have made what is received: it is checked
// block by block, and rows with impossible values are left out, as those of files are.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/source.h"
#include "store/rows/unified_nodes.h"

namespace stalltrace::store {

/// Gets the names of a table's columns, then its blocks. Nothing, if there are no rows.
struct RowBlockSink {
  std::function<Status(std::string_view)> header;
  std::function<Status(std::string_view)> block;
};

/// Whether a recording has a table of this name.
bool is_table(std::string_view table);
/// Whether rows of the table have event ids of their own.
bool has_event_ids(std::string_view table);

/// The rows of `table` in `source` that belong to `range`; of a table that is read completely, all. `after`, only for a
/// table with event ids: of the node of each of these, rows with greater ids alone. Errors are those of the source and
/// the sink; kNotFound: there is no such table.
Status write_row_blocks(EventSource& source, std::string_view table, TimeRange range, const RowBlockSink& sink,
                        std::span<const EventId> after = {});

/// The columns of received blocks.
struct BlockColumns;

/// Rows of one table of one recording, as they were received. Memory is that of the compressed blocks.
class TableBlocks {
 public:
  /// `table`: one of a recording.
  explicit TableBlocks(std::string table) : table_(std::move(table)) {}

  Status add_header(std::string_view bytes);
  /// Errors (kCorrupt): not what write_row_blocks makes, or rows that are not in the order of time.
  Status add_block(std::string bytes);

  [[nodiscard]] const std::string& table() const { return table_; }
  [[nodiscard]] int64_t rows() const { return rows_; }
  /// Rows with impossible values, which are not among rows().
  [[nodiscard]] int64_t left_out() const { return left_out_; }
  /// Uncompressed.
  [[nodiscard]] int64_t raw_bytes() const { return raw_bytes_; }
  /// The number of rows of each node; none of tables without nodes.
  [[nodiscard]] const std::map<NodeId, int64_t>& rows_of_nodes() const { return rows_of_nodes_; }

  struct Block {
    std::string bytes;
    std::shared_ptr<const BlockColumns> columns;
    int64_t begin_ns = 0;  // no row begins before
    int64_t end_ns = 0;    // no row ends after
  };
  [[nodiscard]] const std::vector<Block>& blocks() const { return blocks_; }

 private:
  template <typename T>
  Status judge(Block& block);

  std::string table_;
  std::shared_ptr<const BlockColumns> columns_;
  std::vector<Block> blocks_;
  std::map<NodeId, int64_t> rows_of_nodes_;
  int64_t rows_ = 0;
  int64_t left_out_ = 0;
  int64_t raw_bytes_ = 0;
  int64_t last_ns_ = 0;
};

/// The recordings' rows of one table, which all `tables` are of; null: the recording has none, or is left out.
Status read_row_blocks(std::span<const TableBlocks* const> tables, const UnifiedNodes& nodes,
                       EventSource::AnyRows rows);
/// Those of one recording, with its own ids.
Result<std::vector<Node>> nodes_of(const TableBlocks& table);
/// Of one recording, the `recording`th of `nodes`: those that belong to `range`, in the order of time.
Status visit_row_blocks(const TableBlocks& table, size_t recording, const UnifiedNodes& nodes, TimeRange range,
                        EventSource::AnyVisitor visitor);
/// Of all recordings, in the order of time.
Status visit_row_blocks(std::span<const TableBlocks* const> tables, const UnifiedNodes& nodes, TimeRange range,
                        EventSource::AnyVisitor visitor);

}  // namespace stalltrace::store
