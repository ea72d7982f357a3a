// SPDX-License-Identifier: Apache-2.0
// What a query may do, and what it may not do.
#include "store/query.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/clock.h"
#include "store/testing/test_support.h"
#include "tests/support/golden_text.h"

namespace stalltrace::store {
namespace {

constexpr const char* kSlowCollectives = R"(
    WITH slow_collectives AS (
      SELECT timestamp_ns, duration_ns, rank, nranks, comm_id_hash, pid
      FROM nccl_events WHERE op = 'ALL_REDUCE' AND duration_ns > 50000000)
    SELECT s.rank, s.duration_ns/1e6 AS ms, COUNT(t.timestamp_ns) AS retransmits_in_window
    FROM slow_collectives s LEFT JOIN tcp_events t
      ON t.timestamp_ns BETWEEN s.timestamp_ns AND s.timestamp_ns + s.duration_ns
     AND t.event = 'tcp_retransmit_skb'
    GROUP BY s.rank, s.duration_ns, s.timestamp_ns ORDER BY ms DESC LIMIT 20;)";
constexpr const char* kLongest =
    "SELECT op, rank, nranks, duration_ns/1e6 AS ms FROM nccl_events ORDER BY duration_ns DESC LIMIT 20;";

/// Collects rows as text.
struct Rows final : RowSink {
  Status columns(const std::vector<std::string>& names) override {
    for (const std::string& name : names) {
      text += (text.empty() ? "" : "|") + name;
    }
    text += "\n";
    return {};
  }
  Result<bool> row(std::span<const Value> values) override {
    for (size_t i = 0; i < values.size(); ++i) {
      text += i > 0 ? "|" : "";
      if (const auto* integer = std::get_if<int64_t>(&values[i])) {
        text += fmt::format("{}", *integer);
      } else if (const auto* number = std::get_if<double>(&values[i])) {
        text += fmt::format("{}", *number);
      } else if (const auto* words = std::get_if<std::string>(&values[i])) {
        text += *words;
      } else if (const auto* blob = std::get_if<Blob>(&values[i])) {
        text += fmt::format("{} bytes", blob->bytes.size());
      }
    }
    text += "\n";
    return true;
  }
  std::string text;
};

class Query : public ::testing::Test {
 protected:
  void SetUp() override {
    auto writer = must(RecordingWriter::create(path_));
    writer->accept(node_row(1, "node0"));
    writer->accept(collective_row(1, 1, 1'000, 60'000'000));
    writer->accept(collective_row(1, 2, 100'000'000, 1'000));
    writer->accept(collective_row(1, 3, 200'000'000, 250'000'000));
    Collective open = collective_row(1, 4, 500'000'000, std::nullopt);
    open.rank.reset();
    writer->accept(open);
    Collective mpi = collective_row(1, 5, 600'000'000, 900'000'000);
    mpi.library = Library::kMpi;
    writer->accept(mpi);
    for (uint64_t i = 0; i < 3; ++i) {
      writer->accept(retransmit_row(1, 100 + i, 210'000'000 + static_cast<int64_t>(i)));
    }
    must(writer->close());
  }

  Status run(std::string_view sql, int64_t limit_ns = 5 * kNsPerSecond) {
    rows_ = {};
    return query_recording(path_, sql, {limit_ns}, rows_);
  }
  /// The rows as SQLite's shell prints them, after a line with the column names.
  std::string rows(std::string_view sql) {
    must(run(sql));
    return rows_.text;
  }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "q.db";
  Rows rows_;
};

TEST_F(Query, PublishedQueries) {
  EXPECT_EQ(rows(kSlowCollectives), "rank|ms|retransmits_in_window\n1|250|3\n1|60|0\n");
  EXPECT_EQ(rows(kLongest),
            "op|rank|nranks|ms\nALL_REDUCE|1|4|250\nALL_REDUCE|1|4|60\nALL_REDUCE|1|4|0.001\nALL_REDUCE||4|\n");
}

TEST_F(Query, PublishedQueriesInAnSqliteShell) {
  if (std::system("sqlite3 -version > /dev/null 2>&1") != 0) {
    GTEST_SKIP() << "the sqlite3 shell is not installed";
  }
  const std::string out = folder_ / "out";
  std::ofstream(folder_ / "in.sql") << kSlowCollectives << "\n" << kLongest << "\n";
  ASSERT_EQ(std::system(fmt::format("sqlite3 {} < {}/in.sql > {} 2>&1", path_, folder_ / "", out).c_str()), 0);
  EXPECT_EQ(bytes_of(out),
            "1|250.0|3\n1|60.0|0\nALL_REDUCE|1|4|250.0\nALL_REDUCE|1|4|60.0\nALL_REDUCE|1|4|0.001\nALL_REDUCE||4|\n");
}

TEST_F(Query, RefusesEverythingButReading) {
  const std::string before = bytes_of(path_);
  for (const char* sql : {"INSERT INTO loss VALUES(1, 'x', 1)",
                          "UPDATE collective SET rank = 0",
                          "DELETE FROM collective",
                          "DROP TABLE collective",
                          "CREATE TABLE t(x)",
                          "CREATE TEMP TABLE t(x)",
                          "ATTACH 'other.db' AS o",
                          "DETACH main",
                          "PRAGMA journal_mode = DELETE",
                          "PRAGMA writable_schema = ON",
                          "PRAGMA user_version = 9",
                          "PRAGMA query_only = OFF",
                          "SELECT load_extension('x')",
                          "VACUUM",
                          "VACUUM INTO 'copy.db'",
                          "REINDEX",
                          "ANALYZE",
                          "BEGIN",
                          "SAVEPOINT s",
                          "ALTER TABLE loss RENAME TO gain",
                          "WITH x AS (SELECT 1) INSERT INTO loss SELECT 1, 'x', 1",
                          "SELECT 1; DROP TABLE collective",
                          "EXPLAIN DELETE FROM loss",
                          "CREATE VIRTUAL TABLE v USING fts5(x)"}) {
    const Status status = run(sql);
    ASSERT_FALSE(status) << sql;
    EXPECT_EQ(status.error().kind, ErrorKind::kUsage) << sql << ": " << status.error().what;
    EXPECT_EQ(status.error().what.find('\n'), std::string::npos) << sql;
    EXPECT_FALSE(status.error().remedy.empty()) << sql;
  }
  EXPECT_EQ(bytes_of(path_), before);
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"q.db"});
}

TEST_F(Query, ReadsSchemaAndUsesFunctions) {
  EXPECT_EQ(rows("SELECT count(*) FROM pragma_table_info('loss')"), "count(*)\n3\n");
  EXPECT_EQ(rows("SELECT sum(value) AS s FROM json_each('[1, 2]')"), "s\n3\n");
  EXPECT_EQ(rows("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 3) SELECT sum(x) s FROM c;  "
                 "-- done"),
            "s\n6\n");
  EXPECT_EQ(rows("SELECT name FROM event_name WHERE kind = 'collective' LIMIT 1"), "name\nnode0:1\n");
}

TEST_F(Query, StopsAtItsTimeLimit) {
  const int64_t begun_ns = monotonic_now_ns();
  const Status status =
      run("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c", 200 * kNsPerMs);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kInterrupted);
  EXPECT_LT(monotonic_now_ns() - begun_ns, 10 * kNsPerSecond);
}

TEST_F(Query, SaysWhatIsWrongWithSql) {
  golden::expect_text(run("SELEC 1").error().what);
  golden::expect_text(run("SELECT nought FROM collective").error().what);
  EXPECT_EQ(run("  -- only a comment").error().kind, ErrorKind::kUsage);
}

TEST_F(Query, EveryTypeArrivesAsItIs) {
  EXPECT_EQ(rows("SELECT NULL AS n, 9223372036854775807 AS i, 0.5 AS r, 'a|b' AS t, '' AS e, x'00ff' AS b"),
            "n|i|r|t|e|b\n|9223372036854775807|0.5|a|b||2 bytes\n");
}

TEST_F(Query, SaysWhichTableWasMeantAndHowToListThem) {
  const auto refused = [&](std::string_view sql) {
    const Status status = run(sql);
    return status ? Error{} : status.error();
  };
  const std::string list = fmt::format("stalltrace query {} \"SELECT name FROM sqlite_master\"", path_);
  const Error table = refused("SELECT * FROM collectives");
  EXPECT_NE(table.what.find("'collectives'"), std::string::npos) << table.what;
  EXPECT_NE(table.remedy.find("'collective'"), std::string::npos) << table.remedy;
  EXPECT_NE(table.remedy.find(list), std::string::npos) << table.remedy;
  golden::expect_text(refused("SELECT * FROM frobnicate").remedy, {{folder_.path(), "FOLDER"}});
  for (const char* sql : {".tables", " .schema collective", "SHOW TABLES", "describe collective"}) {
    const Error error = refused(sql);
    EXPECT_EQ(error.kind, ErrorKind::kUsage);
    EXPECT_NE(error.remedy.find(list), std::string::npos) << sql << ": " << error.remedy;
  }
  EXPECT_NE(refused("SELECT nought FROM collective").remedy.find("pragma_table_info"), std::string::npos);
  const Error function = refused("SELECT frobnicate(1)");
  EXPECT_NE(function.what.find("frobnicate()"), std::string::npos) << function.what;
  EXPECT_NE(function.remedy.find("sqlite.org"), std::string::npos) << function.remedy;
}

}  // namespace
}  // namespace stalltrace::store
