// SPDX-License-Identifier: Apache-2.0
#include "store/rows/row_block.h"

#include <gmock/gmock.h>
#include <zstd.h>

#include <random>
#include <vector>

#include "base/clock.h"
#include "model/memory_source.h"
#include "store/rows/column_bytes.h"
#include "store/testing/random_row.h"
#include "store/testing/test_support.h"

namespace stalltrace::store {
namespace {

constexpr NodeId kNode = 3;
constexpr size_t kRows = 700;  // two blocks

struct Written {
  std::string header;
  std::vector<std::string> blocks;
};

Written write(EventSource& source, std::string_view table, TimeRange range = {}, std::span<const EventId> after = {}) {
  Written written;
  const RowBlockSink sink{.header =
                              [&](std::string_view bytes) {
                                written.header = bytes;
                                return Status();
                              },
                          .block =
                              [&](std::string_view bytes) {
                                written.blocks.emplace_back(bytes);
                                return Status();
                              }};
  EXPECT_TRUE(write_row_blocks(source, table, range, sink, after).has_value());
  return written;
}

Status take(const Written& written, TableBlocks& table) {
  ST_TRY(table.add_header(written.header));
  for (const std::string& block : written.blocks) {
    ST_TRY(table.add_block(block));
  }
  return {};
}

UnifiedNodes one_node(const TableBlocks& table) {
  UnifiedNodes nodes;
  std::map<NodeId, int64_t> rows = table.rows_of_nodes();
  rows[kNode] += 0;
  nodes.add(0, {}, rows);
  EXPECT_TRUE(nodes.decide().has_value());
  return nodes;
}

template <typename T>
T as_it_comes(const T& row) {
  return row;
}
int64_t whole_us(int64_t time_ns, int64_t from_ns) { return time_ns - (time_ns - from_ns) % kNsPerUs; }
/// Durations and the device's times come to the microsecond.
Collective as_it_comes(Collective row) {
  for (std::optional<int64_t>* duration : {&row.duration_ns, &row.launch_ns}) {
    *duration = *duration ? std::optional(whole_us(**duration, 0)) : std::nullopt;
  }
  for (std::optional<int64_t>* time : {&row.kernel_start_ns, &row.kernel_end_ns}) {
    *time = *time ? std::optional(whole_us(**time, row.timestamp_ns)) : std::nullopt;
  }
  return row;
}

TEST(RowBlocks, EveryTypeComesBackAsItWas) {
  std::mt19937_64 random(7);
  MemorySource source;
  for_each_type(kEventTypes, [&]<typename T>() {
    for (size_t i = 0; i < kRows; ++i) {
      source.accept(random_row<T>(random, kNode));
    }
  });
  for_each_type(kEventTypes, [&]<typename T>() {
    SCOPED_TRACE(EventTraits<T>::kTable);
    std::vector<std::string> expected;
    std::vector<std::string> got;
    TableBlocks table{std::string(EventTraits<T>::kTable)};
    ASSERT_TRUE(take(write(source, EventTraits<T>::kTable), table).has_value());
    const UnifiedNodes nodes = one_node(table);
    const std::vector<const TableBlocks*> tables{&table};
    if constexpr (StateType<T>) {
      std::vector<T> rows;
      ASSERT_TRUE(read_row_blocks(tables, nodes, &rows).has_value());
      std::ranges::transform(rows, std::back_inserter(got), [](const T& row) { return text_of(row); });
      std::ranges::transform(must(source.all<T>()), std::back_inserter(expected),
                             [](const T& row) { return text_of(row); });
    } else {
      const EventSource::Visitor<T> visit = [&](const T& row) { got.push_back(text_of(row)); };
      ASSERT_TRUE(visit_row_blocks(tables, nodes, {}, &visit).has_value());
      ASSERT_TRUE(
          source.stream<T>({}, [&](const T& row) { expected.push_back(text_of(as_it_comes(row))); }).has_value());
    }
    EXPECT_FALSE(expected.empty());
    // Rows of one time may come in another order.
    std::ranges::sort(expected);
    std::ranges::sort(got);
    EXPECT_EQ(got, expected);
  });
}

TEST(RowBlocks, AfterAnEventOnlyLaterOnesOfItsNodeCome) {
  MemorySource source;
  for (const NodeId node : {NodeId{1}, NodeId{2}, NodeId{3}}) {
    for (uint64_t number = 1; number <= 10; ++number) {
      Collective row;
      row.node_id = node;
      row.event_id = make_event_id(node, number);
      row.timestamp_ns = 1000 - static_cast<int64_t>(number);  // what is stored later may have begun earlier
      source.accept(row);
    }
  }
  const std::vector<EventId> after{make_event_id(1, 7), make_event_id(1, 4), make_event_id(2, 10)};
  TableBlocks table("collective");
  ASSERT_TRUE(take(write(source, "collective", {}, after), table).has_value());
  EXPECT_THAT(table.rows_of_nodes(), testing::ElementsAre(testing::Pair(1, 3), testing::Pair(3, 10)));
  EXPECT_TRUE(has_event_ids("collective"));
  EXPECT_FALSE(has_event_ids("tcp_sample"));
  EXPECT_FALSE(has_event_ids("node"));
}

Collective call_at(int64_t time_ns, EventId id) {
  Collective call{.event_id = id, .node_id = kNode, .timestamp_ns = time_ns};
  call.duration_ns = 1000;
  call.completion = Completion::kCall;
  call.pid = static_cast<int32_t>(id % 8);
  return call;
}

Written calls(int64_t from_ns, int64_t count) {
  MemorySource source;
  for (int64_t i = 0; i < count; ++i) {
    source.accept(call_at(from_ns + 10 * i, i + 1));
  }
  return write(source, "collective");
}

TEST(RowBlocks, RowsComeInTheOrderOfTimeAndInTheirRange) {
  TableBlocks table("collective");
  ASSERT_TRUE(take(calls(1000, 2000), table).has_value());
  EXPECT_EQ(table.rows(), 2000);
  const UnifiedNodes nodes = one_node(table);
  const std::vector<const TableBlocks*> tables{&table};
  std::vector<int64_t> times;
  const EventSource::Visitor<Collective> visit = [&](const Collective& row) { times.push_back(row.timestamp_ns); };
  ASSERT_TRUE(visit_row_blocks(tables, nodes, {5000, 15000}, &visit).has_value());
  EXPECT_EQ(times.size(), 1100U) << "calls that end at 5000 or later belong to it";
  EXPECT_TRUE(std::ranges::is_sorted(times));
}

TEST(RowBlocks, DamagedBytesAreAnErrorOrRowsAndNothingElse) {
  const Written written = calls(1000, 40);
  std::mt19937_64 random(11);
  const auto taken = [&](const Written& bytes) {
    TableBlocks table("collective");
    return take(bytes, table).has_value();
  };
  ASSERT_TRUE(taken(written));
  for (size_t cut = 0; cut < written.blocks[0].size(); ++cut) {
    EXPECT_FALSE(taken({written.header, {written.blocks[0].substr(0, cut)}})) << cut;
  }
  for (size_t at = 0; at < written.blocks[0].size(); ++at) {
    Written changed = written;
    changed.blocks[0][at] = static_cast<char>(random());
    taken(changed);
  }
  for (size_t at = 0; at < written.header.size(); ++at) {
    Written changed = written;
    changed.header[at] = static_cast<char>(random());
    taken(changed);
  }
}

TEST(RowBlocks, BlocksOutOfOrderAreRefused) {
  Written written = calls(1000, 1000);
  std::swap(written.blocks[0], written.blocks[1]);
  TableBlocks table("collective");
  EXPECT_FALSE(take(written, table).has_value());
}

TEST(RowBlocks, ImpossibleRowsAreLeftOutAndCounted) {
  MemorySource source;
  source.accept(call_at(1000, 1));
  source.accept(call_at(std::numeric_limits<int64_t>::max() - 100, 2));
  TableBlocks table("collective");
  ASSERT_TRUE(take(write(source, "collective"), table).has_value());
  EXPECT_EQ(table.rows(), 1);
  EXPECT_EQ(table.left_out(), 1);
}

/// A block of stacks, all of which have one text.
Status take_stacks(size_t rows, size_t text_bytes) {
  std::string header;
  put_varint(header, 1);
  put_varint(header, 6);
  header += "frames";
  header.push_back(static_cast<char>(IntegerForm::kToPrevious));
  std::string raw;
  put_varint(raw, rows);
  ColumnWriter column;
  const std::string text(text_bytes, 'x');
  for (size_t i = 0; i < rows; ++i) {
    column.text(text);
  }
  column.finish(raw);
  std::string block(ZSTD_compressBound(raw.size()), '\0');
  block.resize(ZSTD_compress(block.data(), block.size(), raw.data(), raw.size(), 3));
  TableBlocks table("stack");
  return take({header, {block}}, table);
}

/// A few hundred bytes can stand for any amount of memory where rows refer to one text.
TEST(RowBlocks, ATextThatAllRowsReferToCountsForEachOfThem) {
  EXPECT_TRUE(take_stacks(4096, 64).has_value());
  EXPECT_TRUE(take_stacks(1, 3 << 20).has_value());
  EXPECT_FALSE(take_stacks(4096, 64 << 10).has_value());
}

/// One server's answer must not make the rows of all others unreadable.
TEST(RowBlocks, NodesThatNoRecordingCanHaveAreRefused) {
  const auto taken = [](int count, NodeId first) {
    MemorySource source;
    for (int i = 0; i < count; ++i) {
      Process process{.node_id = first + static_cast<NodeId>(i), .pid = 1};
      source.accept(process);
    }
    TableBlocks table("process");
    return take(write(source, "process"), table).has_value();
  };
  EXPECT_TRUE(taken(1000, 1));
  EXPECT_FALSE(taken(1, 1U << kNodeIdBits));
  EXPECT_FALSE(taken(16'385, 1));
}

Node run(NodeId id, std::string name, int64_t started_ns) {
  Node node;
  node.node_id = id;
  node.name = std::move(name);
  node.started_ns = started_ns;
  return node;
}

TEST(UnifiedNodes, ACopyIsReadOnceAndIdsThatMeetByChanceAreChanged) {
  UnifiedNodes nodes;
  nodes.add(0, {run(5, "a", 10)}, {{5, 100}});
  nodes.add(1, {run(5, "a", 10)}, {{5, 200}});  // the same run, read later
  nodes.add(2, {run(5, "b", 20)}, {{5, 300}});  // another one
  ASSERT_TRUE(nodes.decide().has_value());
  EXPECT_TRUE(nodes.is_copy(0));
  EXPECT_FALSE(nodes.is_copy(1));
  EXPECT_EQ(nodes.unified_id(0, 5), std::nullopt);
  EXPECT_EQ(nodes.unified_id(1, 5), 5U);
  ASSERT_TRUE(nodes.unified_id(2, 5).has_value());
  EXPECT_NE(nodes.unified_id(2, 5), 5U);
}

TEST(UnifiedNodes, ARecordingWithoutNodesIsNoCopy) {
  UnifiedNodes nodes;
  nodes.add(0, {}, {});
  ASSERT_TRUE(nodes.decide().has_value());
  EXPECT_FALSE(nodes.is_copy(0));
}

}  // namespace
}  // namespace stalltrace::store
