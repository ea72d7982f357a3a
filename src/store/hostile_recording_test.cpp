// SPDX-License-Identifier: Apache-2.0
// Recordings made to harm their reader: refused in one line, or read within bounds, with left-out rows counted. `query`
// still shows their content.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <set>

#include "base/clock.h"
#include "model/streams/node_streams.h"
#include "store/merge.h"
#include "store/query.h"
#include "store/schema/open_recording.h"
#include "store/sqlite/open.h"
#include "store/testing/test_support.h"
#include "tests/support/golden_text.h"

namespace stalltrace::store {
namespace {

/// Counts rows.
struct RowCount final : RowSink {
  Status columns(const std::vector<std::string>& /*names*/) override { return {}; }
  Result<bool> row(std::span<const Value> /*values*/) override {
    ++rows;
    return true;
  }
  int64_t rows = 0;
};

class HostileRecording : public ::testing::Test {
 protected:
  void SetUp() override {
    auto writer = must(RecordingWriter::create(path_));
    writer->accept(node_row(1, "node0"));
    Process process;
    process.node_id = 1;
    process.pid = 42;
    writer->accept(process);
    for (int i = 1; i <= 3'000; ++i) {
      writer->accept(collective_row(1, static_cast<uint64_t>(i), int64_t{1'000'000} * i, 1'000));
    }
    must(writer->close());
  }
  void alter(const std::string& sql) {
    Database db = must(Database::open(path_, SQLITE_OPEN_READWRITE));
    must(db.execute(sql));
  }
  /// Changes a declaration under one of our names, as a text editor could.
  void declare(const std::string& sql, const std::string& where) {
    alter(fmt::format("PRAGMA writable_schema = ON; UPDATE sqlite_schema SET {} WHERE {}", sql, where));
  }
  Status query(std::string_view sql, int64_t limit_ns = 5 * kNsPerSecond) {
    count_ = {};
    return query_recording(path_, sql, {limit_ns}, count_);
  }
  Status merge() {
    auto merged = merge_recordings(std::span(&path_, 1), folder_ / "merged.db");
    return merged ? Status() : Status(std::unexpected(merged.error()));
  }
  void expect_refused(const std::string& about) {
    const auto source = open_recording(path_);
    for (const Status& status : {source ? Status() : Status(std::unexpected(source.error())), merge()}) {
      ASSERT_FALSE(status) << about;
      EXPECT_EQ(status.error().kind, ErrorKind::kCorrupt) << status.error().what;
      EXPECT_NE(status.error().what.find(path_), std::string::npos) << status.error().what;
      EXPECT_NE(status.error().what.find(about), std::string::npos) << status.error().what;
      EXPECT_EQ(status.error().what.find('\n'), std::string::npos);
      EXPECT_FALSE(status.error().remedy.empty());
    }
    EXPECT_TRUE(query("SELECT name FROM node")) << about;
    EXPECT_EQ(folder_.names(), std::vector<std::string>{"r.db"});
  }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "r.db";
  RowCount count_;
};

constexpr const char* kEndless =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT 1 AS node_id, i AS pid, i AS start_ns FROM "
    "n";

TEST_F(HostileRecording, ATableThatIsAView) {
  alter(fmt::format("PRAGMA legacy_alter_table = ON; DROP TABLE process; CREATE VIEW process AS {}", kEndless));
  expect_refused("view 'process'");
  const Status endless = query("SELECT count(*) FROM process", 200 * kNsPerMs);
  ASSERT_FALSE(endless);
  EXPECT_EQ(endless.error().kind, ErrorKind::kInterrupted);
}

TEST_F(HostileRecording, AViewOfOursThatSaysSomethingElse) {
  alter(fmt::format("DROP VIEW nccl_events; CREATE VIEW nccl_events AS {}", kEndless));
  expect_refused("view 'nccl_events'");
}

TEST_F(HostileRecording, ATableThatIsVirtual) {
  alter("DROP TABLE stack; CREATE VIRTUAL TABLE stack USING fts5(stack_id, frames)");
  expect_refused("'stack");
  const Status read = query("SELECT * FROM stack");
  ASSERT_FALSE(read);
  golden::expect_text(read.error().what);
}

TEST_F(HostileRecording, ATrigger) {
  alter("CREATE TRIGGER t AFTER DELETE ON finding BEGIN UPDATE node SET name = 'x'; END");
  expect_refused("trigger 't'");
}

TEST_F(HostileRecording, AnIndexOverAnExpression) {
  alter("CREATE INDEX i ON collective(abs(seq))");
  expect_refused("index 'i'");
}

TEST_F(HostileRecording, AnotherTable) {
  alter("CREATE TABLE extra(x)");
  expect_refused("table 'extra'");
}

TEST_F(HostileRecording, ColumnsThatAreNotOurs) {
  const std::string before = bytes_of(path_);
  for (const char* column :
       {"g AS (hex(zeroblob(1000000)))", "d TEXT DEFAULT 'x'", "c INTEGER CHECK(c > 0)", "t TEXT COLLATE NOCASE"}) {
    std::ofstream(path_, std::ios::binary) << before;
    alter(fmt::format("ALTER TABLE process ADD COLUMN {}", column));
    expect_refused("table 'process'");
  }
}

TEST_F(HostileRecording, ADeclarationThatOnlyLooksLikeOurs) {
  declare("sql = replace(sql, 'exe TEXT', 'exe TEXT DEFAULT (random())')", "name = 'process'");
  expect_refused("table 'process'");
}

TEST_F(HostileRecording, WhiteSpaceOfADeclarationMeansNothing) {
  declare("sql = replace(sql, ', ', char(10) || ',   ')", "name = 'process'");
  EXPECT_EQ(must(must(open_recording(path_))->processes()).size(), 1U);
}

/// Every child of the table's root is the same page: its rows repeat and are never in order.
TEST_F(HostileRecording, PagesThatLeadToEachOther) {
  const int64_t root = std::stoll(ask(path_, "SELECT rootpage FROM sqlite_schema WHERE name = 'collective'"));
  std::string bytes = bytes_of(path_);
  const auto byte = [&](size_t at) -> uint8_t { return static_cast<uint8_t>(bytes[at]); };
  const size_t page = static_cast<size_t>(root - 1) * 4096;
  ASSERT_EQ(byte(page), 0x05) << "the root has children";
  const size_t cells = static_cast<size_t>(byte(page + 3)) << 8U | byte(page + 4);
  ASSERT_GT(cells, 10U);
  for (size_t i = 0; i <= cells; ++i) {
    const size_t cell =
        i == cells ? page + 8 : page + (static_cast<size_t>(byte(page + 12 + 2 * i)) << 8U | byte(page + 13 + 2 * i));
    for (int b = 0; b < 4; ++b) {  // the root itself: an endless tree, except for SQLite's limit of 20 levels
      bytes[cell + static_cast<size_t>(b)] = static_cast<char>(root >> (24 - 8 * b));
    }
  }
  std::ofstream(path_, std::ios::binary) << bytes;
  const int64_t begun_ns = monotonic_now_ns();
  const auto source = must(open_recording(path_));
  const Status read = source->collectives({}, [](const Collective&) {});
  EXPECT_FALSE(read);
  EXPECT_FALSE(merge());
  EXPECT_LT(monotonic_now_ns() - begun_ns, 20 * kNsPerSecond);
}

/// Also a good file, in a process that answers request after request from one connection.
TEST_F(HostileRecording, EachRequestMayDoAsMuchWork) {
  Database db = must(open_for_reading(path_));
  const auto work = [&] {
    return db.integer("SELECT count(*) FROM collective a, collective b WHERE b.bytes < a.rank").has_value();
  };
  int times = 0;
  while (times < 100 && work()) {
    ++times;
  }
  EXPECT_LT(times, 100);
  EXPECT_FALSE(work());
  db.restart_guard();
  EXPECT_TRUE(work());
}

TEST_F(HostileRecording, TimesAndSizesThatCannotBeAreLeftOutAndCounted) {
  alter(
      "UPDATE collective SET duration_ns = 9223372036854775807 WHERE event_id & 1023 = 1;"
      "UPDATE collective SET timestamp_ns = -5 WHERE event_id & 1023 = 2;"
      "UPDATE collective SET bytes = -1 WHERE event_id & 1023 = 3;"
      "UPDATE process SET start_ns = 9223372036854775807");
  ReadReport report;
  const auto source = must(open_recordings(std::span(&path_, 1), &report));
  EXPECT_EQ(collectives_of(*source).size(), 3'000U - 9U);
  EXPECT_EQ(collectives_of(*source).size(), 3'000U - 9U);
  EXPECT_TRUE(must(source->processes()).empty());
  EXPECT_EQ(report.left_out["collective"], 9);
  EXPECT_EQ(report.left_out["process"], 1);
  EXPECT_EQ(report.rows_left_out(), 10);
  ASSERT_EQ(report.notes().size(), 2U);
  golden::expect_text(report.notes()[0]);
}

TEST_F(HostileRecording, NodeIdsThatAreNone) {
  const std::string before = bytes_of(path_);
  for (const char* id : {"-1", "8388608", "4294967297"}) {
    std::ofstream(path_, std::ios::binary) << before;
    alter(fmt::format("INSERT INTO node(node_id, started_ns, clock_offset_ns) VALUES({}, 1, 0)", id));
    const auto source = open_recording(path_);
    ASSERT_FALSE(source);
    golden::expect_text(source.error().what, {{path_, "RECORDING"}});
  }
}

/// Time and memory of many node runs are proportional to their number.
TEST_F(HostileRecording, ThousandsOfNodeRuns) {
  alter(
      "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 8000) INSERT INTO node(node_id, name, "
      "started_ns, clock_offset_ns) SELECT i, 'n' || i, 1, 0 FROM n");
  const int64_t begun_ns = monotonic_now_ns();
  const auto source = must(open_recording(path_));
  EXPECT_EQ(must(source->nodes()).size(), 8'000U);
  EXPECT_EQ(collectives_of(*source).size(), 3'000U);
  EXPECT_LT(monotonic_now_ns() - begun_ns, 10 * kNsPerSecond);
  alter(
      "WITH RECURSIVE n(i) AS (SELECT 8001 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) INSERT INTO node(node_id, "
      "name, started_ns, clock_offset_ns) SELECT i, 'n' || i, 1, 0 FROM n");
  EXPECT_FALSE(open_recording(path_));
}

/// All rows have to wait for the last one.
TEST_F(HostileRecording, RowsStayInOrderWhereASegmentClaimsToBeginFirst) {
  alter("UPDATE segment SET min_ns = 0");
  const std::vector<Collective> rows = collectives_of(*must(open_recording(path_)));
  ASSERT_EQ(rows.size(), 3'000U);
  EXPECT_TRUE(std::ranges::is_sorted(rows, {}, &Collective::timestamp_ns));
}

TEST_F(HostileRecording, AQueryHasOnlyFunctionsOfItsRow) {
  for (const char* sql : {"SELECT load_extension('x')", "SELECT fts3_tokenizer('x')", "SELECT sqlite_log(1, 'x')",
                          "SELECT sqlite_compileoption_get(1)", "SELECT writefile('x', 'y')", "SELECT edit('x')"}) {
    const Status status = query(sql);
    ASSERT_FALSE(status) << sql;
    EXPECT_EQ(status.error().kind, ErrorKind::kUsage) << sql;
  }
  for (const char* sql : {"SELECT * FROM dbstat", "SELECT * FROM sqlite_dbpage", "SELECT * FROM sqlite_stmt",
                          "SELECT * FROM bytecode('SELECT 1')"}) {
    EXPECT_FALSE(query(sql)) << sql;
  }
  for (const char* sql : {"SELECT upper(name), printf('%d', 1), json_extract('[1]', '$[0]') FROM node",
                          "SELECT row_number() OVER (ORDER BY event_id) FROM collective LIMIT 1",
                          "SELECT datetime('now'), group_concat(pid), total(pid) FROM process"}) {
    EXPECT_TRUE(query(sql)) << sql << ": " << query(sql).error().what;
  }
}

TEST_F(HostileRecording, OneOperationOfAQueryIsBounded) {
  const int64_t begun_ns = monotonic_now_ns();
  EXPECT_FALSE(query("SELECT length(hex(zeroblob(300000000)))", kNsPerSecond));
  alter("CREATE VIEW slow AS SELECT printf('%.*c', 1000000000, 'x')");
  EXPECT_FALSE(query("SELECT * FROM slow", kNsPerSecond));
  EXPECT_FALSE(query("SELECT 'x' LIKE '" + std::string(5'000, '%') + "y'", kNsPerSecond));
  EXPECT_LT(monotonic_now_ns() - begun_ns, 5 * kNsPerSecond);
}

/// Nodes, collectives in time order and one after the other, of all the files; and the rows of one node.
bool all_are_read(const std::vector<std::string>& paths) {
  const auto source = open_recordings(paths);
  if (!source) {
    return false;
  }
  const size_t files = paths.size();
  size_t in_order = 0;
  size_t by_node = 0;
  size_t of_one = 0;
  const std::set<NodeId> one{static_cast<NodeId>(files)};
  int64_t last_ns = 0;
  bool sorted = true;
  const Status read = (*source)->collectives({}, [&](const Collective& row) {
    sorted = sorted && row.timestamp_ns >= last_ns;
    last_ns = row.timestamp_ns;
    ++in_order;
  });
  return read && sorted &&
         stream_by_node<Collective>(**source, {}, nullptr, [&](const Collective&) { ++by_node; }).has_value() &&
         stream_by_node<Collective>(**source, {}, &one, [&](const Collective&) { ++of_one; }).has_value() &&
         in_order == 3 * files && by_node == in_order && of_one == 3 &&
         (*source)->nodes().value_or(std::vector<Node>()).size() == files;
}

TEST_F(HostileRecording, MoreFilesThanMayBeOpenAtOnce) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  std::vector<std::string> paths;
  for (int i = 0; i < 80; ++i) {
    paths.push_back(folder_ / fmt::format("{}.db", i));
    auto writer = must(RecordingWriter::create(paths.back()));
    writer->accept(node_row(static_cast<NodeId>(i + 1), fmt::format("node{}", i)));
    for (uint64_t n = 1; n <= 3; ++n) {
      writer->accept(collective_row(static_cast<NodeId>(i + 1), n, static_cast<int64_t>(1000 * n) - i, 5));
    }
    must(writer->close());
  }
  EXPECT_TRUE(all_are_read(paths));
  const rlimit low{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_TRUE(merge_recordings(paths, folder_ / "all.db")) << "one at a time";
  EXPECT_TRUE(all_are_read(paths)) << "the soft limit is raised";
  const pid_t child = ::fork();
  if (child == 0) {  // a hard limit can't be raised again: files are opened by turns
    for (const rlim_t most : {100U, 60U}) {
      const rlimit hard{most, most};
      ::setrlimit(RLIMIT_NOFILE, &hard);
      if (!all_are_read(paths)) {
        ::_exit(1);
      }
    }
    ::_exit(0);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(HostileRecording, AFileThatIsReplacedBetweenTwoTurnsIsRefused) {
  const std::string path = folder_ / "a.db";
  auto writer = must(RecordingWriter::create(path));
  writer->accept(node_row(1, "node"));
  must(writer->close());
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_TRUE(open_again(path, status));
  // Its owner can write it and set the time of the last write back.
  const timespec times[] = {status.st_atim, status.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  const auto changed = open_again(path, status);
  ASSERT_FALSE(changed);
  golden::expect_text(changed.error().what, {{path, "PATH"}});
}

}  // namespace
}  // namespace stalltrace::store
