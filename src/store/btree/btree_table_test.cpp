// SPDX-License-Identifier: Apache-2.0
// Rows read from a file's pages equal the rows that SQLite reads; other formats are left to SQLite.
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <expected>
#include <filesystem>
#include <fstream>

#include "store/btree/btree_scan.h"
#include "store/schema/open_recording.h"
#include "store/schema/select.h"
#include "store/schema/table.h"
#include "store/testing/test_support.h"

namespace stalltrace::store {
namespace {

constexpr int kRows = 20'000;

class Paged : public ::testing::Test {
 protected:
  /// Rows out of time order, of many sizes, from two nodes.
  void record() {
    auto writer = must(RecordingWriter::create(path_));
    for (int i = 1; i <= kRows; ++i) {
      const auto number = static_cast<uint64_t>(i);
      Collective row =
          collective_row(i % 2 == 0 ? 3 : 5, number, 20'000 + 1'000 * i - i % 7 * 1'500, i % 5 == 0 ? 0 : i * 77'777);
      row.seq = i % 3 == 0 ? std::nullopt : std::optional<int64_t>(i * i % 70'000 - 300);
      row.bytes = (1LL << (i % 53)) + (i % 2);
      row.op = static_cast<Operation>(i % kOperationCount);
      writer->accept(row);
      if (i % 1'000 == 0) {
        must(writer->flush());
      }
    }
    must(writer->close());
  }
  void alter(const std::string& sql) { must(must(Database::open(path_, SQLITE_OPEN_READWRITE)).execute(sql)); }

  std::shared_ptr<const BtreeTable> find(Database& db) {
    return must(find_btree_table(db, "collective", "event_id", column_names<Collective>())).table;
  }
  /// The number of rows that the pages give for the whole table, or the reason why they give none.
  std::expected<int, Fallback> count() {
    Database db = must(open_for_reading(path_, ReaderKind::kQuery));  // of any schema
    const FoundTable found = must(find_btree_table(db, "collective", "event_id", column_names<Collective>()));
    int rows = 0;
    const auto take = [&](RecordColumns& columns) {
      Collective row;
      each_column(row, Extractor(columns));
      ++rows;
    };
    const Fallback met = found.table == nullptr ? found.reason : BtreeScan(found.table).read(0, kForever, take);
    return met == Fallback::kNone ? std::expected<int, Fallback>(rows) : std::unexpected(met);
  }
  /// The reader's result and SQLite's, as text.
  std::pair<std::string, std::string> sums() {
    auto source = must(open_recording(path_));
    int64_t bytes = 0;
    int64_t seqs = 0;
    int64_t pids = 0;
    int64_t count = 0;
    int64_t last_ns = std::numeric_limits<int64_t>::min();
    for (const Collective& row : collectives_of(*source)) {
      EXPECT_GE(row.timestamp_ns, std::exchange(last_ns, row.timestamp_ns));
      bytes ^= row.bytes ^ row.event_id ^ *row.duration_ns;
      seqs += row.seq.value_or(7);
      pids += row.pid;
      ++count;
    }
    Database db = must(Database::open(path_, SQLITE_OPEN_READWRITE));
    Statement select =
        must(db.prepare("SELECT ifnull(bytes, 0), event_id, duration_ns, ifnull(seq, 7), pid FROM collective"));
    int64_t expected[4] = {};
    while (select.step() == SQLITE_ROW) {
      expected[0] ^= select.integer(0) ^ select.integer(1) ^ select.integer(2);
      expected[1] += select.integer(3);
      expected[2] += select.integer(4);
      ++expected[3];
    }
    return {fmt::format("{} {} {} {}", bytes, seqs, pids, count), fmt::format("{}", fmt::join(expected, " "))};
  }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "r.db";
};

TEST_F(Paged, ReadsWhatSqliteReads) {
  record();
  EXPECT_EQ(count(), kRows);
  const auto [ours, expected] = sums();
  EXPECT_EQ(ours, expected);
}

TEST_F(Paged, ReadsRangesOfIds) {
  record();
  Database db = must(open_for_reading(path_));
  BtreeScan scan(find(db));
  for (const int first : {1, 2, 777, 19'990}) {
    std::vector<int64_t> ids;
    const auto take = [&](RecordColumns& columns) {
      Collective row;
      each_column(row, Extractor(columns));
      ids.push_back(row.event_id);
    };
    ASSERT_EQ(scan.read(make_event_id(5, static_cast<uint64_t>(first)), make_event_id(5, first + 100), take),
              Fallback::kNone);
    ASSERT_EQ(ids.size(), first == 19'990 ? 5 : 50);
    EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
    EXPECT_GE(ids.front(), make_event_id(5, static_cast<uint64_t>(first)));
  }
}

/// Where there are more recordings than descriptors, a table is opened again for each reading.
TEST_F(Paged, AFileThatWasReplacedIsNotRead) {
  record();
  Database db = must(open_for_reading(path_));
  const auto table =
      must(find_btree_table(db, "collective", "event_id", column_names<Collective>(), KeepsOpen::kNo)).table;
  BtreeScan scan(table);
  const auto ignore = [](RecordColumns&) {};
  EXPECT_EQ(scan.read(0, kForever, ignore), Fallback::kNone);
  std::filesystem::copy_file(path_, path_ + ".other");
  std::filesystem::rename(path_ + ".other", path_);
  EXPECT_EQ(scan.read(0, kForever, ignore), Fallback::kRefused);
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(scan.read(0, kForever, ignore), Fallback::kRefused) << "a FIFO must not be waited for";
}

TEST_F(Paged, RowsSpilledOverPagesAreLeftToSqlite) {
  auto writer = must(RecordingWriter::create(path_));
  for (int i = 0; i < 3'000; ++i) {
    WaitSpan span{.node_id = 1, .timestamp_ns = i, .window_ns = 1};
    span.thread_name = std::string(i == 1'500 ? 20'000 : 3, 'x');
    writer->accept(span);
  }
  must(writer->close());
  size_t longest = 0;
  int rows = 0;
  ReadReport report;
  const auto source = must(open_recordings(std::span(&path_, 1), &report));
  must(source->wait_spans({}, [&](const WaitSpan& span) {
    longest = std::max(longest, span.thread_name.size());
    ++rows;
  }));
  EXPECT_EQ(report.fallbacks[static_cast<size_t>(Fallback::kSpilledRow)], 1);
  EXPECT_EQ(report.notes().size(), 1U);
  EXPECT_EQ(rows, 3'000);
  EXPECT_EQ(longest, 20'000U);
}

TEST_F(Paged, ValuesOfOtherTypesAreLeftToSqlite) {
  record();
  alter(
      "UPDATE collective SET seq = 12.5 WHERE event_id & 1023 = 77; UPDATE collective SET pid = '8x' WHERE"
      " event_id & 1023 = 78");
  EXPECT_EQ(count(), std::unexpected(Fallback::kValueType));
  const auto [ours, expected] = sums();
  EXPECT_EQ(ours, expected);
}

TEST_F(Paged, TablesOfOtherSchemas) {
  record();
  alter("ALTER TABLE collective ADD COLUMN later INTEGER");
  EXPECT_EQ(count(), kRows);
  alter("ALTER TABLE collective DROP COLUMN called_ns");
  EXPECT_EQ(count(), kRows);
  alter("ALTER TABLE collective ADD COLUMN known INTEGER DEFAULT 5");
  EXPECT_EQ(count(), std::unexpected(Fallback::kTableLayout));
}

TEST_F(Paged, HeadersOfManyKinds) {
  auto writer = must(RecordingWriter::create(path_));
  for (int i = 1; i <= kRows; ++i) {  // the length of each value changes with its own period
    Collective row = collective_row(5, static_cast<uint64_t>(i), 1'000 * i, 1LL << (i % 53));
    row.launch_ns = 1LL << (i % 37);
    row.seq = 1LL << (i % 31);
    row.count = 1LL << (i % 29);
    row.bytes = i % 23;
    row.pid = 1 << (i % 19);
    writer->accept(row);
  }
  must(writer->close());
  EXPECT_EQ(count(), kRows);
  const auto [ours, expected] = sums();
  EXPECT_EQ(ours, expected);
}

TEST_F(Paged, HeadersTooLongToKeep) {
  record();
  std::string values;
  for (int i = 0; i < 30; ++i) {
    alter(fmt::format("ALTER TABLE collective ADD COLUMN later{} TEXT", i));
    values += fmt::format("{}later{} = '{}'", i == 0 ? "" : ", ", i, std::string(70, 'x'));
  }
  alter(fmt::format("UPDATE collective SET {} WHERE event_id % 3 = 0", values));
  EXPECT_EQ(count(), kRows);
}

/// Replaces each page's kind byte in turn: the scan gives a reason, and invents no row.
TEST_F(Paged, ADamagedTreeIsRefusedWithItsReason) {
  record();
  const size_t size = std::filesystem::file_size(path_);
  size_t refused = 0;
  for (size_t offset = 4096; offset < size; offset += 16 * 4096) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const int kind = file.get();
    if (kind != 0x0d && kind != 0x05) {
      continue;
    }
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(0x7f).flush();
    if (const auto met = count(); !met) {
      EXPECT_EQ(met.error(), Fallback::kPageTree);
      ++refused;
    }
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(kind)).flush();
  }
  EXPECT_GT(refused, 10U);
  EXPECT_EQ(count(), kRows);
}

TEST_F(Paged, ARecordingBeingWrittenIsLeftToSqlite) {
  auto writer = must(RecordingWriter::create(path_));
  writer->accept(collective_row(1, 1, 10, 5));
  must(writer->flush());
  EXPECT_EQ(count(), std::unexpected(Fallback::kOpenFile));
  EXPECT_EQ(collectives_of(*must(open_recording(path_))).size(), 1U);
}

}  // namespace
}  // namespace stalltrace::store
