// SPDX-License-Identifier: Apache-2.0
#include "store/rows/row_block.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <set>

#include "store/rows/block_columns.h"
#include "store/rows/block_reader.h"
#include "store/schema/table.h"

namespace stalltrace::store {
namespace {

constexpr uint64_t kColumnsAtMost = 64;  // more than any table has
constexpr uint8_t kLastForm = static_cast<uint8_t>(IntegerForm::kToSameCall);

/// Gives the row its node's unified id; false: another recording has it.
template <typename T>
bool unify_ids(T& row, const UnifiedNodes& nodes, size_t recording) {
  if constexpr (requires { row.node_id; }) {
    const std::optional<NodeId> unified = nodes.unified_id(recording, row.node_id);
    if (!unified) {
      return false;
    }
    if (*unified != row.node_id) {
      row.node_id = *unified;
      if constexpr (EventTraits<T>::kKind == TableKind::kEvents) {
        row.event_id = make_event_id(*unified, number_of(row.event_id));
      }
      if constexpr (requires { row.collective_id; }) {
        row.collective_id = row.collective_id == 0 ? 0 : make_event_id(*unified, number_of(row.collective_id));
      }
    }
  }
  return true;
}

/// The rows of one recording, one after the other.
template <typename T>
class Rows {
 public:
  Rows(const TableBlocks& blocks, const UnifiedNodes& nodes, size_t recording, TimeRange range, BlockReader<T>& reader)
      : blocks_(blocks), nodes_(nodes), recording_(recording), range_(range), reader_(reader) {}

  /// The next row; null at the end.
  Result<const T*> next() {
    for (;;) {
      for (; row_ < taken_.size(); ++row_) {
        if (unify_ids(taken_[row_], nodes_, recording_) && belongs_to(taken_[row_], range_)) {
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
        return bad_rows(blocks_.table(), "damaged");  // they were read once: memory has changed
      }
      const std::span<T> rows = reader_.rows();
      taken_ = rows;
      row_ = 0;
    }
  }

 private:
  const TableBlocks& blocks_;
  const UnifiedNodes& nodes_;
  size_t recording_;
  TimeRange range_;
  BlockReader<T>& reader_;
  size_t block_ = 0;
  std::span<T> taken_;
  size_t row_ = 0;
};

template <StreamedType T>
Status visit_merged(std::span<const TableBlocks* const> tables, const UnifiedNodes& nodes, TimeRange range,
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

Status TableBlocks::add_header(std::string_view bytes) {
  auto columns = std::make_shared<BlockColumns>();
  uint64_t count = 0;
  if (columns_ != nullptr || !take_varint(bytes, count) || count > kColumnsAtMost) {
    return bad_rows(table_, "damaged");
  }
  for (uint64_t i = 0; i < count; ++i) {
    std::string_view name;
    if (!take_text(bytes, name) || bytes.empty()) {
      return bad_rows(table_, "damaged");
    }
    const auto how = static_cast<uint8_t>(bytes.front());
    const auto form = static_cast<uint8_t>(how & ~kMicroseconds);
    if (form > kLastForm) {
      return bad_rows(table_, "damaged");
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
    return bad_rows(table_, "damaged");
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
        return bad_rows(table_, "of nodes that no recording can have");
      }
    }
    if constexpr (StreamedType<T>) {
      if (row.timestamp_ns < last_ns_) {
        return bad_rows(table_, "not in the order of time");
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
    return bad_rows(table_, "without their columns");
  }
  Block block{.bytes = std::move(bytes), .columns = columns_};
  Status judged;
  with_type_of(table_, [&]<typename T>() { judged = judge<T>(block); });
  ST_TRY(judged);
  blocks_.push_back(std::move(block));
  return {};
}

Status read_row_blocks(std::span<const TableBlocks* const> tables, const UnifiedNodes& nodes,
                       EventSource::AnyRows rows) {
  return std::visit(
      [&]<typename T>(std::vector<T>* all) -> Status {
        std::set<int64_t> seen;  // stacks have no node, and one id everywhere
        BlockReader<T> reader;
        for (size_t i = 0; i < tables.size(); ++i) {
          for (size_t at = 0; tables[i] != nullptr && at < tables[i]->blocks().size(); ++at) {
            if (!reader.read(tables[i]->blocks()[at])) {
              return bad_rows(tables[i]->table(), "damaged");
            }
            for (T& row : reader.rows()) {
              if constexpr (std::is_same_v<T, Stack>) {
                if (!seen.insert(row.stack_id).second) {
                  continue;
                }
              }
              if (unify_ids(row, nodes, i)) {
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
      return bad_rows(table.table(), "damaged");
    }
    nodes.insert(nodes.end(), reader.rows().begin(), reader.rows().end());
  }
  return nodes;
}

Status visit_row_blocks(const TableBlocks& table, size_t recording, const UnifiedNodes& nodes, TimeRange range,
                        EventSource::AnyVisitor visitor) {
  return std::visit(
      [&]<typename T>(const EventSource::Visitor<T>* visit) -> Status {
        BlockReader<T> reader;
        Rows<T> rows(table, nodes, recording, range, reader);
        for (;;) {
          ST_ASSIGN(const T* row, rows.next());
          if (row == nullptr) {
            return {};
          }
          (*visit)(*row);
        }
      },
      visitor);
}

Status visit_row_blocks(std::span<const TableBlocks* const> tables, const UnifiedNodes& nodes, TimeRange range,
                        EventSource::AnyVisitor visitor) {
  return std::visit(
      [&]<typename T>(const EventSource::Visitor<T>* visit) { return visit_merged(tables, nodes, range, *visit); },
      visitor);
}

}  // namespace stalltrace::store
