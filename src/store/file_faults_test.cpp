// SPDX-License-Identifier: Apache-2.0
// Each read, write and sync of writing, reading and merging a recording fails once. There is one error, which says what
// to do; what was recorded is readable afterwards, and nothing is altered that was only to be read. A power cut at any
// moment leaves a recording of the first rows.
#include "store/testing/file_faults.h"

#include <fmt/format.h>

#include <cerrno>
#include <functional>

#include "base/clock.h"
#include "store/merge.h"
#include "store/testing/test_support.h"

namespace stalltrace::store {
namespace {

constexpr NodeId kNode = 1;
constexpr uint64_t kRowsPerFlush = 60;
constexpr uint64_t kFlushes = 4;
constexpr uint64_t kRows = kFlushes * kRowsPerFlush;

struct Trouble {
  const char* name;
  FileAction action;
  int error;
};
constexpr Trouble kReadFails{"a read fails", FileAction::kRead, EIO};
constexpr Trouble kReadIsShort{"a read is short", FileAction::kRead, FileFault::kShort};
constexpr Trouble kWriteFails{"a write fails", FileAction::kWrite, EIO};
constexpr Trouble kNoRoom{"the disk is full", FileAction::kWrite, ENOSPC};
constexpr Trouble kWriteIsShort{"a write is short", FileAction::kWrite, FileFault::kShort};
constexpr Trouble kSyncFails{"a sync fails", FileAction::kSync, EIO};

void expect_clear(const Error& error) {
  EXPECT_NE(error.what, "");
  EXPECT_NE(error.remedy, "") << error.what;
}

/// Does `run` with each of the actions failing in turn, until one run has fewer than that.
void at_each(const std::vector<Trouble>& troubles, const std::function<bool(const Trouble&, int64_t)>& run) {
  constexpr int64_t kMost = 2'000;
  for (const Trouble& trouble : troubles) {
    if (::testing::Test::HasFailure()) {
      return;
    }
    int64_t nth = 1;
    for (; nth < kMost; ++nth) {
      SCOPED_TRACE(fmt::format("{}: number {}", trouble.name, nth));
      if (!run(trouble, nth) || ::testing::Test::HasFailure()) {
        break;
      }
    }
    EXPECT_GT(nth, 1) << trouble.name << " never";
    EXPECT_LT(nth, kMost);
  }
}

Collective numbered(uint64_t number) {
  return collective_row(kNode, number, static_cast<int64_t>(number) * kNsPerMs, kNsPerMs);
}

struct Written {
  bool created = false;
  bool closed = false;
  uint64_t stored = 0;  // rows that were in the file before the close, at least
  uint64_t lost = 0;
  std::vector<Error> errors;
};

Written write_recording(const std::string& path, WriterOptions options = {}, uint64_t flushes = kFlushes) {
  Written written;
  auto writer = RecordingWriter::create(path, options);
  if (!writer) {
    written.errors.push_back(writer.error());
    return written;
  }
  written.created = true;
  (*writer)->accept(node_row(kNode, "n"));
  for (uint64_t number = 1; number <= flushes * kRowsPerFlush; ++number) {
    (*writer)->accept(numbered(number));
    if (number % kRowsPerFlush == 0) {
      if (const Status flushed = (*writer)->flush(); !flushed) {
        written.errors.push_back(flushed.error());
      }
      written.stored = (*writer)->buffered() == 0 ? number : written.stored;
    }
  }
  const Status closed = (*writer)->close();
  written.closed = closed.has_value();
  if (!closed) {
    written.errors.push_back(closed.error());
  }
  written.lost = (*writer)->stats().lost;
  return written;
}

/// The number of collectives, which are the first ones, without a gap.
uint64_t first_rows(const std::string& path) {
  const auto source = open_recording(path);
  EXPECT_TRUE(source) << source.error().what;
  if (!source) {
    return 0;
  }
  const std::vector<Collective> rows = collectives_of(**source);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].event_id, make_event_id(kNode, i + 1));
  }
  return rows.size();
}

/// True: the fault happened.
bool write_with(const Trouble& trouble, int64_t nth, FileFault::Lasts lasts) {
  const TemporaryFolder folder;
  const std::string path = folder / "r.db";
  Written written;
  bool happened = false;
  {
    const FileFault fault(folder.path(), trouble.action, nth, trouble.error, lasts);
    written = write_recording(path);
    happened = fault.happened();
  }
  // A fault that lasts is reported when it begins, and when the recording can't be completed.
  EXPECT_LE(written.errors.size(), lasts == FileFault::Lasts::kOnce ? 1U : 2U);
  for (const Error& error : written.errors) {
    expect_clear(error);
  }
  if (!written.created) {
    EXPECT_EQ(folder.names(), std::vector<std::string>());
    return happened;
  }
  const uint64_t rows = first_rows(path);
  EXPECT_GE(rows, written.stored);
  if (written.closed && written.lost == 0) {
    EXPECT_EQ(rows, kRows);
  }
  const FileFault none(folder.path());
  EXPECT_EQ(ask(path, "PRAGMA integrity_check"), "ok");
  return happened;
}

/// Without short reads: those of one's own file show that another process has cut it.
TEST(FileFaults, WritingARecording) {
  at_each({kReadFails, kWriteFails, kNoRoom, kSyncFails},
          [](const Trouble& trouble, int64_t nth) { return write_with(trouble, nth, FileFault::Lasts::kOnce); });
}

TEST(FileFaults, WritingToADiskThatFailsForGood) {
  constexpr int64_t kStep = 7;  // any number that meets every phase of a recording
  at_each({kWriteFails, kNoRoom, kSyncFails}, [](const Trouble& trouble, int64_t nth) {
    return nth % kStep != 0 && trouble.action == FileAction::kWrite
               ? true
               : write_with(trouble, nth, FileFault::Lasts::kForEver);
  });
}

TEST(FileFaults, ReadingARecording) {
  const TemporaryFolder folder;
  for (const char* name : {"closed.db", "left.db"}) {
    SCOPED_TRACE(name);
    const std::string path = folder / name;
    ASSERT_TRUE(write_recording(path).closed);
    if (std::string_view(name) == "left.db") {  // with a log, as a killed tracer leaves it
      const std::string copy = folder / "copy.db";
      Database db = must(Database::open(path, SQLITE_OPEN_READWRITE));
      must(db.execute("PRAGMA journal_mode = WAL; UPDATE node SET ended_ns = NULL"));
      std::filesystem::copy_file(path, copy);
      std::filesystem::copy_file(path + "-wal", copy + "-wal");
      db = Database();
      std::filesystem::rename(copy, path);
      std::filesystem::rename(copy + "-wal", path + "-wal");
    }
    const std::string before = bytes_of(path);
    const std::string log_before = bytes_of(path + "-wal");
    at_each({kReadFails, kReadIsShort}, [&](const Trouble& trouble, int64_t nth) {
      const FileFault fault(folder.path(), trouble.action, nth, trouble.error);
      const auto source = open_recording(path);
      if (!source) {
        expect_clear(source.error());
        return fault.happened();
      }
      uint64_t rows = 0;
      const Status read = (*source)->collectives({}, [&](const Collective&) { ++rows; });
      if (read) {
        EXPECT_EQ(rows, kRows);
      } else {
        expect_clear(read.error());
      }
      return fault.happened();
    });
    EXPECT_EQ(bytes_of(path), before);
    EXPECT_EQ(bytes_of(path + "-wal"), log_before);
  }
}

TEST(FileFaults, Merging) {
  const TemporaryFolder folder;
  const std::string inputs[] = {folder / "a.db", folder / "b.db"};
  ASSERT_TRUE(write_recording(inputs[0]).closed);
  {
    auto writer = must(RecordingWriter::create(inputs[1]));
    writer->accept(node_row(2, "other"));
    writer->accept(collective_row(2, 1, 5, 5));
    must(writer->close());
  }
  const std::string before[] = {bytes_of(inputs[0]), bytes_of(inputs[1])};
  at_each({kReadFails, kReadIsShort, kWriteFails, kNoRoom, kWriteIsShort, kSyncFails},
          [&](const Trouble& trouble, int64_t nth) {
            const std::string out = folder / "out.db";
            bool happened = false;
            bool merged = false;
            {
              const FileFault fault(folder.path(), trouble.action, nth, trouble.error);
              const auto summary = merge_recordings(inputs, out);
              happened = fault.happened();
              merged = summary.has_value();
              if (!summary) {
                expect_clear(summary.error());
              }
            }
            EXPECT_EQ(std::filesystem::exists(out), merged);
            if (merged) {
              EXPECT_EQ(collectives_of(*must(open_recording(out))).size(), kRows + 1);
              const FileFault none(folder.path());
              EXPECT_EQ(ask(out, "PRAGMA integrity_check"), "ok");
              std::filesystem::remove(out);
            }
            EXPECT_EQ(folder.names(), (std::vector<std::string>{"a.db", "b.db"}));
            return happened;
          });
  for (const size_t i : {0, 1}) {
    EXPECT_EQ(bytes_of(inputs[i]), before[i]);
  }
}

/// Each moment of a recording's life, and each kind of disk.
TEST(PowerCut, LeavesARecordingOfTheFirstRows) {
  const TemporaryFolder written;
  std::vector<FileJournal::Entry> entries;
  size_t created_at = 0;
  {
    const FileJournal journal(written.path());
    auto writer = must(RecordingWriter::create(written / "r.db"));
    created_at = journal.entries().size();
    writer->accept(node_row(kNode, "n"));
    for (uint64_t number = 1; number <= kRows; ++number) {
      writer->accept(numbered(number));
      if (number % kRowsPerFlush == 0) {
        must(writer->flush());
      }
    }
    must(writer->close());
    entries = journal.entries();
  }
  ASSERT_GT(created_at, 0U);
  uint64_t partly = 0;
  for (size_t count = 0; count <= entries.size(); ++count) {
    for (const Unsynced unsynced : {Unsynced::kAll, Unsynced::kNothing, Unsynced::kSome}) {
      SCOPED_TRACE(fmt::format("after {} of {} actions (created after {}), unsynced {}", count, entries.size(),
                               created_at, static_cast<int>(unsynced)));
      const TemporaryFolder left;
      const std::string path = left / "r.db";
      make_files_after_power_cut(entries, count, unsynced, count, left.path());
      const FileFault none(left.path());
      const auto source = open_recording(path);
      if (!source) {
        EXPECT_LT(count, created_at) << source.error().what;
        expect_clear(source.error());
        continue;
      }
      const uint64_t rows = first_rows(path);
      EXPECT_EQ(rows % kRowsPerFlush, 0U);
      partly += rows > 0 && rows < kRows ? 1 : 0;
      if (count == entries.size()) {
        EXPECT_EQ(rows, kRows);
      }
      if (count < created_at) {  // SQLite would undo the unfinished schema, which a reader may not
        EXPECT_EQ(rows, 0U);
      } else {
        EXPECT_EQ(ask(path, "PRAGMA integrity_check"), "ok");
        EXPECT_EQ(ask(path, "SELECT count(*) FROM collective"), std::to_string(rows));
      }
      if (::testing::Test::HasFailure()) {
        return;
      }
    }
  }
  EXPECT_GT(partly, 0U);
}

}  // namespace
}  // namespace stalltrace::store
