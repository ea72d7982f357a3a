// SPDX-License-Identifier: Apache-2.0
// With a size limit, normal data is removed first, a stall and its surroundings stay, and removed rows are counted.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "base/clock.h"
#include "store/testing/test_support.h"

namespace stalltrace::store {
namespace {

constexpr int64_t kStallAt = 100;    // seconds
constexpr int64_t kOpenAt = 50;      // seconds
constexpr int64_t kSeconds = 1'200;  // 100 collectives and samples a second

int64_t total_size(const std::string& path) {
  std::error_code none;
  const auto size = [&](const std::string& name) {
    const auto bytes = std::filesystem::file_size(name, none);
    return none ? int64_t{0} : static_cast<int64_t>(bytes);
  };
  return size(path) + size(path + "-wal");
}

/// Twenty minutes with one stall at kStallAt and one call that never ended; returns the largest size seen.
int64_t record_long_run(const std::string& path, int64_t max_size_bytes) {
  auto writer = must(RecordingWriter::create(path, {.max_size_bytes = max_size_bytes}));
  writer->accept(node_row(1, "n"));
  int64_t largest = 0;
  uint64_t number = 0;
  for (int64_t second = 0; second < kSeconds; ++second) {
    for (int64_t i = 0; i < 100; ++i) {
      const int64_t at_ns = second * kNsPerSecond + i * 10 * kNsPerMs;
      const bool stall = second == kStallAt && i == 50;
      const bool open = second == kOpenAt && i == 50;
      const std::optional<int64_t> duration = open ? std::nullopt : std::optional((stall ? 400 : 2) * kNsPerMs);
      writer->accept(collective_row(1, ++number, at_ns, duration));
      writer->accept(sample_row(1, at_ns));
    }
    if (second == kStallAt) {
      writer->accept(retransmit_row(1, ++number, second * kNsPerSecond + 600 * kNsPerMs));
    }
    must(writer->flush());
    largest = std::max(largest, total_size(path));
  }
  EXPECT_EQ(writer->stats().lost, 0U);
  EXPECT_GT(writer->stats().pruned, 0U);
  must(writer->close());
  return largest;
}

TEST(MaxSize, CallsWhoseEndIsNotReportedGoAsOthersDo) {
  constexpr int64_t kMaxSize = 6 << 20;
  const TemporaryFolder folder;
  auto writer = must(RecordingWriter::create(folder / "r.db", {.max_size_bytes = kMaxSize}));
  writer->accept(node_row(1, "n"));
  for (uint64_t number = 1; number <= 60'000; ++number) {
    Collective row = collective_row(1, number, static_cast<int64_t>(number) * 10 * kNsPerMs, std::nullopt);
    row.completion = Completion::kUnobserved;
    row.launch_ns = 20 * kNsPerUs;
    writer->accept(row);
    if (number % 100 == 0) {
      must(writer->flush());
      ASSERT_LE(total_size(folder / "r.db"), kMaxSize);
    }
  }
  EXPECT_EQ(writer->stats().lost, 0U);
  EXPECT_GT(writer->stats().pruned, 0U);
  must(writer->close());
}

TEST(MaxSize, KeepsTheStallAndCountsWhatWent) {
  const TemporaryFolder folder;
  const std::string path = folder / "r.db";
  constexpr int64_t kMaxSize = 6 << 20;
  EXPECT_LE(record_long_run(path, kMaxSize), kMaxSize);
  EXPECT_LE(total_size(path), kMaxSize);
  EXPECT_EQ(ask(path, "PRAGMA integrity_check"), "ok");
  EXPECT_EQ(ask(path, "SELECT count(*) FROM collective WHERE duration_ns = 400000000"), "1");
  EXPECT_EQ(ask(path, "SELECT count(*) FROM collective WHERE duration_ns IS NULL"), "1");
  EXPECT_EQ(ask(path, "SELECT count(*) FROM tcp_events"), "1");
  // From a second before to a second after the stall no row is missing in either table.
  for (const char* table : {"collective", "tcp_sample"}) {
    EXPECT_EQ(ask(path, std::string("SELECT count(*) FROM ") + table +
                            " WHERE timestamp_ns BETWEEN 99500000000 AND 101490000000"),
              "200");
    // Very few rows remain from the time long before it; the last seconds remain.
    EXPECT_LE(std::stoi(ask(path, std::string("SELECT count(*) FROM ") + table + " WHERE timestamp_ns < 90000000000")),
              1);
    EXPECT_EQ(ask(path, std::string("SELECT count(*) FROM ") + table + " WHERE timestamp_ns >= 1190000000000"), "1000");
    // Every row is either present or counted.
    EXPECT_EQ(ask(path, std::string("SELECT (SELECT count(*) FROM ") + table +
                            ") + (SELECT count FROM loss WHERE source = 'pruned:" + table + "')"),
              "120000");
  }
  int64_t last_ns = 0;
  for (const Collective& row : collectives_of(*must(open_recording(path)))) {
    ASSERT_LE(last_ns, row.timestamp_ns);
    last_ns = row.timestamp_ns;
  }
}

/// An agent that lives for days: processes, connections and communicators come and go beside one that stays.
TEST(MaxSize, WhatEndedAgesOutWithTheRowsOfItsTime) {
  constexpr int64_t kMaxSize = 2 << 20;
  constexpr int32_t kComers = 20'000;
  constexpr int32_t kStays = 1;
  constexpr int64_t kDistanceNs = 20 * kNsPerMs;
  const TemporaryFolder folder;
  const std::string path = folder / "r.db";
  auto writer = must(RecordingWriter::create(path, {.max_size_bytes = kMaxSize}));
  writer->accept(node_row(1, "n"));
  writer->accept(Process{.node_id = 1, .pid = kStays, .start_ns = 1, .exe = "stays"});
  int64_t stall_ns = 0;
  for (int32_t i = 1; i <= kComers; ++i) {
    const int64_t at_ns = i * kDistanceNs;
    const bool stall = i == 2'000;
    stall_ns = stall ? at_ns : stall_ns;
    Process comer{.node_id = 1, .pid = kStays + i, .start_ns = at_ns, .exe = "/usr/bin/comes-and-goes"};
    comer.exit_ns = at_ns + kDistanceNs;
    writer->accept(comer);
    Communicator communicator{.node_id = 1, .pid = comer.pid, .comm_ptr = 0xc0};
    communicator.created_ns = at_ns;  // ends with its process
    writer->accept(communicator);
    Connection connection{.node_id = 1, .cookie = static_cast<uint64_t>(i), .pid = comer.pid};
    connection.opened_ns = at_ns;
    connection.closed_ns = at_ns + kDistanceNs;
    writer->accept(connection);
    writer->accept(collective_row(1, static_cast<uint64_t>(i), at_ns, (stall ? 400 : 2) * kNsPerMs));
    if (i % 100 == 0) {
      must(writer->flush());
      ASSERT_LE(total_size(path), kMaxSize);
    }
  }
  EXPECT_EQ(writer->stats().lost, 0U);
  must(writer->close());
  EXPECT_EQ(ask(path, "SELECT count(*) FROM process WHERE exe = 'stays'"), "1");
  for (const char* table : {"process", "communicator", "connection"}) {
    SCOPED_TRACE(table);
    const std::string count = std::string("SELECT count(*) FROM ") + table;
    const int left = std::stoi(ask(path, count));
    EXPECT_LT(left, kComers / 2);
    const int all = kComers + (std::string_view(table) == "process" ? 1 : 0);
    EXPECT_EQ(ask(path, std::string("SELECT count FROM loss WHERE source = 'pruned:") + table + "'"),
              std::to_string(all - left));
  }
  // Each collective that is left has its process: the newest, and those around the stall.
  EXPECT_EQ(ask(path,
                "SELECT count(*) FROM collective c WHERE NOT EXISTS (SELECT 1 FROM process p WHERE"
                " p.start_ns = c.timestamp_ns)"),
            "0");
  EXPECT_EQ(ask(path, fmt::format("SELECT count(*) FROM process WHERE start_ns = {}", stall_ns)), "1");
  EXPECT_LT(std::stoi(ask(path, "SELECT count(*) FROM segment")), kComers / 1024);
}

/// A rank was killed inside a call, long ago: how it ended is the evidence of the hang.
TEST(MaxSize, TheProcessOfACallThatNeverEndedStays) {
  const TemporaryFolder folder;
  const std::string path = folder / "r.db";
  auto writer = must(RecordingWriter::create(path, {.max_size_bytes = 2 << 20}));
  writer->accept(node_row(1, "n"));
  for (int32_t i = 1; i <= 20'000; ++i) {
    const int64_t at_ns = i * 10 * kNsPerMs;
    const bool dies_inside = i == 100;
    Process process{.node_id = 1, .pid = i, .start_ns = at_ns, .exe = dies_inside ? "killed" : "/usr/bin/ends-well"};
    process.exit_ns = at_ns + 5 * kNsPerMs;
    process.exit_signal = dies_inside ? std::optional(SIGKILL) : std::nullopt;
    writer->accept(process);
    Communicator communicator{.node_id = 1, .pid = i, .comm_ptr = 0xc0};
    communicator.created_ns = at_ns;
    writer->accept(communicator);
    Collective call = collective_row(1, static_cast<uint64_t>(i), at_ns + kNsPerMs, std::nullopt);
    call.pid = i;
    writer->accept(call);
    if (!dies_inside) {
      call.duration_ns = kNsPerMs;
      call.completion = Completion::kSync;
      writer->accept(call);
    }
    if (i % 100 == 0) {
      must(writer->flush());
    }
  }
  must(writer->close());
  EXPECT_LT(std::stoi(ask(path, "SELECT count(*) FROM process")), 15'000);
  EXPECT_EQ(ask(path, "SELECT count(*) FROM collective WHERE duration_ns IS NULL"), "1");
  EXPECT_EQ(ask(path, "SELECT exit_signal FROM process WHERE pid = 100"), std::to_string(SIGKILL));
  EXPECT_EQ(ask(path, "SELECT count(*) FROM communicator WHERE pid = 100"), "1");
}

/// A query that takes hours, or was forgotten in a pager.
TEST(MaxSize, AReaderThatKeepsTheLogIsReportedOnceAndCounted) {
  constexpr int64_t kMaxSize = 2 << 20;
  const TemporaryFolder folder;
  const std::string path = folder / "r.db";
  auto writer = must(RecordingWriter::create(path, {.max_size_bytes = kMaxSize}));
  writer->accept(node_row(1, "n"));
  uint64_t number = 0;
  const auto record = [&](int flushes) {
    int errors = 0;
    for (int i = 0; i < flushes; ++i) {
      for (int row = 0; row < 200; ++row) {
        ++number;
        writer->accept(collective_row(1, number, static_cast<int64_t>(number) * 10 * kNsPerMs, 2 * kNsPerMs));
      }
      errors += writer->flush() ? 0 : 1;
    }
    return errors;
  };
  EXPECT_EQ(record(5), 0);
  {
    auto reader = must(Database::open(path, SQLITE_OPEN_READONLY));
    must(reader.execute("BEGIN"));
    must(reader.integer("SELECT count(*) FROM collective"));
    EXPECT_EQ(record(300), 1);
    EXPECT_LE(total_size(path), kMaxSize + kMaxSize / 4);
    EXPECT_GT(writer->stats().lost, 0U);
  }
  EXPECT_EQ(record(5), 0);
  must(writer->close());
  EXPECT_LE(total_size(path), kMaxSize);
  EXPECT_EQ(ask(path, "SELECT (SELECT count(*) FROM collective) + (SELECT sum(count) FROM loss)"),
            std::to_string(number));
}

TEST(MaxSize, ABurstThatIsLargerThanTheRecordingIsCutToFit) {
  const TemporaryFolder folder;
  const std::string path = folder / "r.db";
  auto writer = must(RecordingWriter::create(path, {.max_size_bytes = 1 << 20}));
  writer->accept(node_row(1, "n"));
  constexpr uint64_t kRows = 40'000;
  for (uint64_t number = 1; number <= kRows; ++number) {
    writer->accept(collective_row(1, number, static_cast<int64_t>(number), 1));
  }
  must(writer->flush());
  EXPECT_GT(writer->stats().lost, 0U);
  EXPECT_LT(writer->stats().lost, kRows);
  writer->accept(collective_row(1, kRows + 1, static_cast<int64_t>(kRows + 1), 1));
  must(writer->flush());
  must(writer->close());
  EXPECT_EQ(ask(path, "SELECT max(timestamp_ns) FROM collective"), std::to_string(kRows + 1));
  EXPECT_EQ(ask(path, "SELECT (SELECT count(*) FROM collective) + (SELECT sum(count) FROM loss)"),
            std::to_string(kRows + 1));
}

TEST(MaxSize, TooSmallIsRefused) {
  const TemporaryFolder folder;
  EXPECT_FALSE(RecordingWriter::create(folder / "r.db", {.max_size_bytes = 4096}));
  EXPECT_TRUE(folder.names().empty());
}

/// Runs in a child whose files may not exceed `limit_bytes`, like a disk that fills up.
bool in_child_with_file_limit(rlim_t limit_bytes, const std::function<bool()>& run) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, [](int) {});  // as main() has it
    const rlimit limit{limit_bytes, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(run() ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(DiskFull, IsReportedOnceCountedAndRecoveredFrom) {
  const TemporaryFolder folder;
  const std::string path = folder / "r.db";
  constexpr uint64_t kRows = 100'000;
  EXPECT_TRUE(in_child_with_file_limit(4 << 20, [&] {
    auto writer = must(RecordingWriter::create(path));
    writer->accept(node_row(1, "n"));
    int errors = 0;
    for (uint64_t number = 1; number <= kRows; ++number) {
      if (number == kRows - 100) {  // there is room again
        const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
        ::setrlimit(RLIMIT_FSIZE, &unlimited);
      }
      writer->accept(collective_row(1, number, static_cast<int64_t>(number), 1));
      if (number % 500 == 0) {
        errors += writer->flush() ? 0 : 1;
      }
    }
    return errors == 1 && writer->stats().lost > 0 && writer->close();
  }));
  EXPECT_EQ(ask(path, "PRAGMA integrity_check"), "ok");
  EXPECT_EQ(ask(path,
                "SELECT (SELECT count(*) FROM collective) + (SELECT count FROM loss WHERE source = "
                "'store:disk_full')"),
            std::to_string(kRows));
  EXPECT_EQ(ask(path, "SELECT max(timestamp_ns) FROM collective"), std::to_string(kRows));
}

}  // namespace
}  // namespace stalltrace::store
