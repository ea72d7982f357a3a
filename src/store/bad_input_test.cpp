// SPDX-License-Identifier: Apache-2.0
// Files that are no recordings, or no longer: one clear line each, never a crash.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/schema/schema.h"
#include "store/sqlite/open.h"
#include "store/testing/test_support.h"
#include "tests/support/golden_text.h"

namespace stalltrace::store {
namespace {

class BadInput : public ::testing::Test {
 protected:
  std::string error_of(const std::string& path) {
    auto source = open_recording(path);
    if (source) {
      ADD_FAILURE() << path << " was opened";
      return "";
    }
    EXPECT_TRUE(source.error().what.starts_with(path)) << source.error().what;
    EXPECT_EQ(source.error().what.find('\n'), std::string::npos);
    EXPECT_FALSE(source.error().remedy.empty()) << source.error().what;
    return source.error().what.substr(path.size());
  }

  std::string recording(int rows) {
    const std::string path = folder_ / "good.db";
    auto writer = must(RecordingWriter::create(path));
    for (int i = 1; i <= rows; ++i) {
      writer->accept(collective_row(1, static_cast<uint64_t>(i), i, 1));
    }
    must(writer->close());
    return path;
  }

  void put(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

  TemporaryFolder folder_;
};

TEST_F(BadInput, OneClearLineEach) {
  golden::expect_text(error_of(folder_ / "missing.db"));
  EXPECT_EQ(error_of(folder_ / ""), ": a folder, not a recording");
  EXPECT_EQ(error_of("/dev/null"), ": not a file, not a recording");
  put(folder_ / "empty.db", "");
  EXPECT_EQ(error_of(folder_ / "empty.db"), ": empty, not a recording");
  put(folder_ / "text.db", std::string(10'000, 'x'));
  golden::expect_text(error_of(folder_ / "text.db"));
  put(folder_ / "short.db", "SQLite format 3");
  golden::expect_text(error_of(folder_ / "short.db"));
}

TEST_F(BadInput, ALogThatIsAFifoOrALinkToOneIsNone) {
  const std::string path = recording(3);
  const std::string log = path + "-wal";
  ASSERT_EQ(::mkfifo(log.c_str(), 0600), 0);
  EXPECT_TRUE(open_recording(path)) << "it would wait for the other end";
  EXPECT_FALSE(is_being_written(path));
  EXPECT_FALSE(lock_writer(path));
  ASSERT_EQ(::rename(log.c_str(), (folder_ / "fifo").c_str()), 0);
  ASSERT_EQ(::symlink((folder_ / "fifo").c_str(), log.c_str()), 0);
  EXPECT_TRUE(open_recording(path));
}

TEST_F(BadInput, AnotherProgramsDatabase) {
  const std::string path = folder_ / "other.db";
  must(must(Database::open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)).execute("CREATE TABLE t(x)"));
  golden::expect_text(error_of(path));
}

TEST_F(BadInput, NewerSchema) {
  const std::string path = recording(1);
  must(must(Database::open(path, SQLITE_OPEN_READWRITE)).execute("PRAGMA user_version = 1000"));
  golden::expect_text(error_of(path), {{"up to " + std::to_string(schema_version()), "up to KNOWN"}});
}

TEST_F(BadInput, CutShort) {
  const std::string bytes = bytes_of(recording(20'000));
  for (const size_t keep : {bytes.size() / 2, bytes.size() - 1, size_t{4096}, size_t{60}}) {
    put(folder_ / "cut.db", bytes.substr(0, keep));
    golden::expect_text(error_of(folder_ / "cut.db"),
                        {{std::to_string(bytes.size()), "ALL"}, {std::to_string(keep), "SOME"}});
  }
}

TEST_F(BadInput, DamagedPagesNeverCrash) {
  const std::string good = bytes_of(recording(5'000));
  const std::string path = folder_ / "damaged.db";
  size_t refused = 0;
  for (size_t page = 0; page * 4096 < good.size(); ++page) {
    std::string bytes = good;
    for (size_t i = 100; i < 400; ++i) {
      bytes[page * 4096 + i * 7 % 4096] = static_cast<char>(i * 31);
    }
    put(path, bytes);
    auto source = open_recording(path);
    const Status read =
        source ? (*source)->collectives({}, [](const Collective&) {}) : Status(std::unexpected(source.error()));
    if (!read) {
      ++refused;
      EXPECT_EQ(read.error().what.find('\n'), std::string::npos);
      EXPECT_TRUE(read.error().what.starts_with(path)) << read.error().what;
    }
  }
  EXPECT_GT(refused, 0U);
}

TEST_F(BadInput, NoPermission) {
  const std::string path = recording(1);
  std::filesystem::permissions(path, std::filesystem::perms::none);
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    const bool dropped = ::geteuid() != 0 || ::setuid(kNobody) == 0;
    ::_exit(dropped && error_of(path).find("denied") != std::string::npos ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Schema, MigratesStepByStep) {
  const TemporaryFolder folder;
  Database db = must(Database::open(folder / "r.db", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
  const std::vector<const char*> steps{"CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT)", "CREATE TABLE a(x)",
                                       "ALTER TABLE a ADD COLUMN y"};
  must(migrate(db, std::span(steps).first(1)));
  must(migrate(db, steps));
  must(migrate(db, steps));
  EXPECT_EQ(must(db.integer("PRAGMA user_version")), 3);
  EXPECT_EQ(must(db.text("SELECT value FROM meta WHERE key = 'schema_version'")), "3");
  EXPECT_EQ(must(db.integer("SELECT count(*) FROM pragma_table_info('a')")), 2);
  EXPECT_FALSE(migrate(db, std::span(steps).first(2)));
}

TEST_F(BadInput, OlderRecordingLacksColumnsAndTables) {
  const std::string path = folder_ / "old.db";
  {
    Database db = must(Database::open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
    must(migrate(db, migrations().first(1)));
    must(
        db.execute("INSERT INTO node(node_id, name, started_ns, clock_offset_ns) VALUES(1, 'old', 1, 0);"
                   "INSERT INTO connection(node_id, cookie, opened_ns, pid) VALUES(1, 5, 1, 42)"));
  }
  const std::string before = bytes_of(path);
  auto source = must(open_recording(path));
  const std::vector<Connection> connections = must(source->connections());
  ASSERT_EQ(connections.size(), 1U);
  EXPECT_EQ(connections[0].pid, 42);
  EXPECT_EQ(connections[0].comm_id_hash, 0U);
  must(source->proxy_steps({}, [](const ProxyStep&) { FAIL(); }));
  EXPECT_TRUE(must(source->benchmark_runs()).empty());
  EXPECT_TRUE(must(source->competitors()).empty());
  EXPECT_TRUE(must(source->graph_uses()).empty());
  EXPECT_TRUE(bytes_of(path) == before);
}

}  // namespace
}  // namespace stalltrace::store
