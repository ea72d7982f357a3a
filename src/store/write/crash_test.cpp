// SPDX-License-Identifier: Apache-2.0
// A recording survives failures: kill -9 at any time, a second tracer, a concurrent reader, a folder that cannot be
// written.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <random>
#include <thread>

#include "store/schema/open_recording.h"
#include "store/sqlite/open.h"
#include "store/testing/test_support.h"
#include "tests/support/golden_text.h"

namespace stalltrace::store {
namespace {

constexpr NodeId kNode = 9;
constexpr int kRowsPerFlush = 200;

/// Records without end, and reports the number of stored collectives after each flush.
[[noreturn]] void record_for_ever(const std::string& path, int report) {
  auto writer = must(RecordingWriter::create(path, {.readers = Readers::kAllUsers}));
  writer->accept(node_row(kNode, "n"));
  for (int64_t number = 1;; ++number) {
    writer->accept(collective_row(kNode, static_cast<uint64_t>(number), number * 10, std::nullopt));
    writer->accept(collective_row(kNode, static_cast<uint64_t>(number), number * 10, 5));
    writer->accept(sample_row(kNode, number * 10));
    if (number % kRowsPerFlush == 0) {
      if (!writer->flush() || ::write(report, &number, sizeof number) != sizeof number) {
        ::_exit(1);
      }
    }
  }
}

struct KilledWriter {
  int64_t flushed = 0;
};

/// Runs a writer, kills it after `after`, and returns what it had reported.
KilledWriter record_and_kill(const std::string& path, std::chrono::microseconds after) {
  int pipe_fds[2];
  EXPECT_EQ(::pipe(pipe_fds), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pipe_fds[0]);
    record_for_ever(path, pipe_fds[1]);
  }
  ::close(pipe_fds[1]);
  KilledWriter killed;
  EXPECT_EQ(::read(pipe_fds[0], &killed.flushed, sizeof killed.flushed), sizeof killed.flushed);
  std::this_thread::sleep_for(after);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  int64_t number = 0;
  while (::read(pipe_fds[0], &number, sizeof number) == sizeof number) {
    killed.flushed = number;
  }
  ::close(pipe_fds[0]);
  return killed;
}

/// Expects all rows that were reported as flushed, complete flushes only, no gap: a prefix of the accepted rows.
void expect_prefix(const std::string& path, int64_t flushed) {
  const std::vector<Collective> rows = collectives_of(*must(open_recording(path)));
  ASSERT_GE(static_cast<int64_t>(rows.size()), flushed);
  EXPECT_EQ(rows.size() % kRowsPerFlush, 0U);
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].event_id, make_event_id(kNode, i + 1));
    ASSERT_EQ(rows[i].duration_ns, 5);
  }
}

TEST(Crash, KilledAtAnyMomentEveryFlushedRowIsThere) {
  std::mt19937 random(20260131);
  std::uniform_int_distribution<int> microseconds(0, 40'000);
  for (int round = 0; round < 15; ++round) {
    const TemporaryFolder folder;
    const std::string path = folder / "killed.db";
    const KilledWriter killed = record_and_kill(path, std::chrono::microseconds(microseconds(random)));
    if (round % 2 == 0) {
      std::filesystem::remove(path + "-shm");
    }
    const std::vector<std::string> names = folder.names();
    const std::string file = bytes_of(path);
    const std::string log = bytes_of(path + "-wal");
    expect_prefix(path, killed.flushed);
    EXPECT_EQ(folder.names(), names);
    EXPECT_TRUE(bytes_of(path) == file && bytes_of(path + "-wal") == log) << "reading altered the recording";
    EXPECT_EQ(must(must(open_for_reading(path)).text("PRAGMA integrity_check")), "ok");
    EXPECT_EQ(must(must(open_for_reading(path)).text("SELECT quote(ended_ns) FROM node")), "NULL");
    EXPECT_EQ(ask(path, "PRAGMA integrity_check"), "ok");  // like any other client, which recovers the log
    expect_prefix(path, killed.flushed);
  }
}

/// Runs `check` in a child without root's permissions; true if it returned true.
bool as_nobody(const std::function<bool()>& check) {
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    const bool dropped = ::geteuid() != 0 || (::setgid(kNobody) == 0 && ::setuid(kNobody) == 0);
    ::_exit(dropped && check() ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Crash, KilledRecordingInAReadOnlyFolder) {
  const TemporaryFolder folder;
  const std::string path = folder / "killed.db";
  const KilledWriter killed = record_and_kill(path, std::chrono::milliseconds(5));
  for (const char* without : {"", "-shm"}) {
    if (*without != '\0') {
      std::filesystem::remove(path + without);
    }
    std::filesystem::permissions(folder / "", std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec |
                                                  std::filesystem::perms::others_read |
                                                  std::filesystem::perms::others_exec);
    EXPECT_TRUE(as_nobody([&] {
      auto source = open_recording(path);
      return source && static_cast<int64_t>(collectives_of(**source).size()) >= killed.flushed;
    })) << "without "
        << without;
    std::filesystem::permissions(folder / "", std::filesystem::perms::owner_all);
  }
}

TEST(Crash, ClosedRecordingInAReadOnlyFolder) {
  const TemporaryFolder folder;
  auto writer = must(RecordingWriter::create(folder / "r.db"));
  writer->accept(collective_row(1, 1, 10, 5));
  must(writer->close());
  std::filesystem::permissions(folder / "r.db",
                               std::filesystem::perms::owner_read | std::filesystem::perms::others_read);
  std::filesystem::permissions(folder / "", std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec |
                                                std::filesystem::perms::others_read |
                                                std::filesystem::perms::others_exec);
  EXPECT_TRUE(as_nobody([&] {
    auto source = open_recording(folder / "r.db");
    return source && collectives_of(**source).size() == 1;
  }));
}

TEST(Crash, DatabaseCopiedWithoutItsLog) {
  const TemporaryFolder folder;
  auto writer = must(RecordingWriter::create(folder / "r.db"));
  writer->accept(collective_row(1, 1, 10, 5));
  must(writer->flush());
  std::ofstream(folder / "copy.db", std::ios::binary) << bytes_of(folder / "r.db");
  EXPECT_TRUE(collectives_of(*must(open_recording(folder / "copy.db"))).empty());
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"copy.db", "r.db", "r.db-shm", "r.db-wal"}));
}

TEST(Writer, ClosesToOneFile) {
  const TemporaryFolder folder;
  auto writer = must(RecordingWriter::create(folder / "r.db"));
  writer->accept(node_row(1, "n"));
  must(writer->flush());
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"r.db", "r.db-shm", "r.db-wal"}));
  must(writer->close());
  EXPECT_EQ(folder.names(), std::vector<std::string>{"r.db"});
  EXPECT_EQ(ask(folder / "r.db", "PRAGMA journal_mode"), "delete");
  EXPECT_EQ(ask(folder / "r.db", "SELECT ended_ns > 0 FROM node"), "1");
  EXPECT_EQ(ask(folder / "r.db", "SELECT value > 0 FROM meta WHERE key = 'ended_ns'"), "1");
}

TEST(Writer, OpenedThenCompletedIsOneRow) {
  const TemporaryFolder folder;
  auto writer = must(RecordingWriter::create(folder / "r.db"));
  writer->accept(collective_row(1, 1, 10, std::nullopt));
  must(writer->flush());
  writer->accept(collective_row(1, 2, 20, std::nullopt));
  writer->accept(collective_row(1, 1, 10, 5));
  writer->accept(collective_row(1, 2, 20, 6));
  must(writer->flush());
  const auto rows = collectives_of(*must(open_recording(folder / "r.db")));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].duration_ns, 5);
  EXPECT_EQ(rows[1].duration_ns, 6);
}

TEST(Writer, AnyClientReadsDuringIt) {
  const TemporaryFolder folder;
  auto writer = must(RecordingWriter::create(folder / "r.db"));
  EXPECT_TRUE(is_being_written(folder / "r.db"));
  for (int64_t i = 1; i <= 5; ++i) {
    writer->accept(collective_row(1, static_cast<uint64_t>(i), i, 1));
    must(writer->flush());
    // In a separate process, like real readers.
    const pid_t child = ::fork();
    if (child == 0) {
      auto source = open_recording(folder / "r.db");
      ::_exit(source && collectives_of(**source).size() == static_cast<size_t>(i) ? 0 : 1);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  must(writer->close());
  EXPECT_FALSE(is_being_written(folder / "r.db"));
}

TEST(Writer, RefusesASecondTracer) {
  const TemporaryFolder folder;
  auto writer = must(RecordingWriter::create(folder / "r.db"));
  for (const bool overwrite : {false, true}) {
    auto second = RecordingWriter::create(folder / "r.db", {.overwrite = overwrite});
    ASSERT_FALSE(second);
    golden::expect_text(second.error().what, {{folder.path(), "FOLDER"}, {std::to_string(::getpid()), "PID"}});
  }
}

TEST(Writer, OverwritesOnlyOnDemandAndOnlyRecordings) {
  const TemporaryFolder folder;
  const std::string path = folder / "r.db";
  must(must(RecordingWriter::create(path))->close());
  auto refused = RecordingWriter::create(path);
  ASSERT_FALSE(refused);
  golden::expect_text(refused.error().what, {{folder.path(), "FOLDER"}});
  EXPECT_TRUE(RecordingWriter::create(path, {.overwrite = true}).has_value());
  std::ofstream(folder / "thesis.txt") << "years of work that must not be overwritten, and then some more text";
  EXPECT_FALSE(RecordingWriter::create(folder / "thesis.txt", {.overwrite = true}));
  EXPECT_FALSE(bytes_of(folder / "thesis.txt").empty());
  EXPECT_FALSE(RecordingWriter::create(folder / "no/such/folder/r.db"));
}

TEST(Writer, StreamsInTimeOrderWhateverTheOrderOfArrival) {
  const TemporaryFolder folder;
  std::mt19937_64 random(7);
  auto writer = must(RecordingWriter::create(folder / "r.db"));
  std::vector<int64_t> times;
  for (uint64_t number = 1; number <= 20'000; ++number) {
    const int64_t jitter = static_cast<int64_t>(random() % (number % 1000 == 0 ? 5'000'000 : 3'000));
    times.push_back(static_cast<int64_t>(number) * 1000 + jitter);
    writer->accept(collective_row(1, number, times.back(), 10));
    if (number % 700 == 0) {
      must(writer->flush());
    }
  }
  // A group's members get the time of its end, long after they were first stored.
  times[10] = 15'000'000;
  writer->accept(collective_row(1, 11, times[10], 10));
  must(writer->close());
  std::vector<int64_t> read;
  for (const Collective& row : collectives_of(*must(open_recording(folder / "r.db")))) {
    read.push_back(row.timestamp_ns);
  }
  std::sort(times.begin(), times.end());
  EXPECT_TRUE(read == times);
}

TEST(Reader, RangeIncludesWhatReachesIntoIt) {
  const TemporaryFolder folder;
  auto writer = must(RecordingWriter::create(folder / "r.db"));
  writer->accept(collective_row(1, 1, 10, 5));
  writer->accept(collective_row(1, 2, 20, 100));
  writer->accept(collective_row(1, 3, 30, std::nullopt));
  writer->accept(collective_row(1, 4, 120, 5));
  must(writer->close());
  std::vector<uint64_t> numbers;
  for (const Collective& row : collectives_of(*must(open_recording(folder / "r.db")), {100, 120})) {
    numbers.push_back(number_of(row.event_id));
  }
  EXPECT_EQ(numbers, (std::vector<uint64_t>{2, 3}));
}

}  // namespace
}  // namespace stalltrace::store
