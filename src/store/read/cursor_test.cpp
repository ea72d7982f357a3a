// SPDX-License-Identifier: Apache-2.0
// The number of threads and the batch size don't change the rows, their order, or the error.
#include "store/read/cursor.h"

#include <random>

#include "store/schema/open_recording.h"
#include "store/schema/table.h"
#include "store/testing/test_support.h"

namespace stalltrace::store {
namespace {

constexpr NodeId kNode = 3;

struct Reading {
  size_t threads;
  size_t row_groups;
  size_t batches;
};
constexpr Reading kReadings[] = {{0, 1, 1}, {0, 3, 2}, {1, 1, 2}, {1, 2, 5}, {3, 1, 9}, {3, 4, 3}, {2, 1'000, 2}};

/// The rows read until the end or the error.
struct Rows {
  std::vector<EventId> ids;
  Status status;
};

class CursorTest : public ::testing::Test {
 protected:
  /// Rows of `count` calls; start_ns(i) is the start of call i.
  template <typename F>
  void record(int count, F&& start_ns) {
    auto writer = must(RecordingWriter::create(path_));
    for (int i = 1; i <= count; ++i) {
      writer->accept(collective_row(kNode, static_cast<uint64_t>(i), start_ns(i), 5));
      if (i % 900 == 0) {
        must(writer->flush());
      }
    }
    must(writer->close());
  }

  Rows read(const Reading& reading, TimeRange range = {}, size_t most_blocks = std::numeric_limits<size_t>::max()) {
    Database db = must(open_for_reading(path_));
    const std::vector<std::string> columns = column_names<Collective>();
    TableHandle table;
    table.path = path_;
    table.pages = must(find_btree_table(db, "collective", "event_id", columns)).table;
    EXPECT_NE(table.pages, nullptr);
    table.sql = must(select_sql(db, "collective", columns)) + " AND event_id >= ? AND event_id < ?";
    table.open = [&db]() -> Result<OpenFiles::Use> { return OpenFiles::Use(db); };
    const NodeRun run{.id_in_file = kNode, .unified_id = kNode, .first_id = 0, .end_id = kForever};
    std::vector<RowGroup> row_groups = must(row_groups_of(db, "collective", run, range));
    row_group_count_ = row_groups.size();
    Cursor<Collective> cursor(table, run, std::move(row_groups), range, {reading.row_groups, reading.batches});
    ThreadPool workers(reading.threads);
    Rows rows;
    rows.status = cursor.start(workers);
    for (size_t i = 0; rows.status && !cursor.block_done() && i < most_blocks; ++i) {
      for (const Timed<Collective>& timed : cursor.block()) {
        EXPECT_EQ(timed.time_ns, timed.row->timestamp_ns);
        rows.ids.push_back(timed.row->event_id);
      }
      cursor.skip_block();
      rows.status = cursor.fill();
    }
    return rows;
  }

  /// SQLite's answer. Rows with equal times are ordered by id.
  std::vector<EventId> expected(const std::string& where = "1") {
    Database db = must(Database::open(path_, SQLITE_OPEN_READWRITE));
    Statement select =
        must(db.prepare("SELECT event_id FROM collective WHERE " + where + " ORDER BY timestamp_ns, event_id"));
    std::vector<EventId> ids;
    while (select.step() == SQLITE_ROW) {
      ids.push_back(select.integer(0));
    }
    return ids;
  }
  void alter(const std::string& sql) { must(must(Database::open(path_, SQLITE_OPEN_READWRITE)).execute(sql)); }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "r.db";
  size_t row_group_count_ = 0;
};

/// Mostly ordered; many with one time; some much later than their neighbours, beyond several row groups.
int64_t scattered_ns(int i) {
  std::mt19937 random(static_cast<unsigned>(i));
  const int64_t at = i / 3 * 1'000;
  return i % 500 == 0 ? at + 2'500'000 : at + static_cast<int64_t>(random() % 8) * 1'000;
}

TEST_F(CursorTest, OneOrderForAll) {
  record(20'000, scattered_ns);
  const std::vector<EventId> ids = expected();
  ASSERT_EQ(ids.size(), 20'000U);
  for (const Reading& reading : kReadings) {
    const Rows rows = read(reading);
    EXPECT_TRUE(rows.status.has_value());
    EXPECT_EQ(rows.ids, ids) << reading.threads << " " << reading.row_groups << " " << reading.batches;
  }
  EXPECT_GT(row_group_count_, 15U);
}

TEST_F(CursorTest, NothingInOrder) {
  record(10'000, [](int i) { return i * 7'919LL % 10'007; });
  const std::vector<EventId> ids = expected();
  for (const Reading& reading : kReadings) {
    EXPECT_EQ(read(reading).ids, ids);
  }
}

TEST_F(CursorTest, RangesOfTime) {
  record(20'000, scattered_ns);
  for (const auto& [from_ns, to_ns] : {std::pair{1'000'000, 1'000'001}, {2'000'000, 4'500'000}, {0, 30}, {-9, -1}}) {
    const std::vector<EventId> ids =
        expected(fmt::format("timestamp_ns < {} AND timestamp_ns + duration_ns >= {}", to_ns, from_ns));
    for (const Reading& reading : kReadings) {
      const Rows rows = read(reading, {from_ns, to_ns});
      EXPECT_TRUE(rows.status.has_value());
      EXPECT_EQ(rows.ids, ids) << from_ns;
      EXPECT_LT(row_group_count_, 16U);
    }
  }
}

TEST_F(CursorTest, TinyTables) {
  for (const int count : {0, 1, 2, 1'024, 1'025}) {
    std::filesystem::remove(path_);
    record(count, scattered_ns);
    for (const Reading& reading : kReadings) {
      const Rows rows = read(reading);
      EXPECT_TRUE(rows.status.has_value());
      EXPECT_EQ(rows.ids, expected()) << count;
    }
  }
}

TEST_F(CursorTest, WithoutSegmentsAllIsOneRowGroup) {
  record(5'000, scattered_ns);
  alter("DELETE FROM segment");
  for (const Reading& reading : kReadings) {
    EXPECT_EQ(read(reading).ids, expected());
    EXPECT_EQ(row_group_count_, 1U);
  }
}

TEST_F(CursorTest, WhatIsNotPlainIsReadWithSqlInstead) {
  record(20'000, scattered_ns);
  alter("UPDATE collective SET seq = 12.5 WHERE event_id % 5000 = 77");
  const std::vector<EventId> ids = expected();
  for (const Reading& reading : kReadings) {
    const Rows rows = read(reading);
    EXPECT_TRUE(rows.status.has_value());
    EXPECT_EQ(rows.ids, ids);
  }
}

TEST_F(CursorTest, AbandonedHalfWay) {
  record(20'000, scattered_ns);
  const std::vector<EventId> ids = expected();
  for (const Reading& reading : kReadings) {
    for (const size_t blocks : {0U, 1U, 2U}) {
      const std::vector<EventId> first = read(reading, {}, blocks).ids;
      ASSERT_LE(first.size(), ids.size());
      EXPECT_TRUE(std::equal(first.begin(), first.end(), ids.begin()));
    }
  }
}

TEST_F(CursorTest, DamageInTheMiddleComesAfterTheRowsBefore) {
  record(20'000, scattered_ns);
  const std::vector<EventId> ids = expected();
  const auto size = std::filesystem::file_size(path_);
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(size / 2 / 4096 * 4096));
  file << std::string(4096, '\x7f');
  file.close();
  size_t most = 0;
  for (const Reading& reading : kReadings) {
    const Rows rows = read(reading);
    ASSERT_FALSE(rows.status.has_value());
    EXPECT_EQ(rows.status.error().kind, ErrorKind::kCorrupt);
    EXPECT_TRUE(rows.status.error().what.starts_with(path_)) << rows.status.error().what;
    ASSERT_LT(rows.ids.size(), ids.size());
    EXPECT_TRUE(std::equal(rows.ids.begin(), rows.ids.end(), ids.begin()));
    most = std::max(most, rows.ids.size());
  }
  EXPECT_GT(most, 2'000U);
}

}  // namespace
}  // namespace stalltrace::store
