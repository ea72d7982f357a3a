// SPDX-License-Identifier: Apache-2.0
#include "store/read/file_tables.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "store/schema/open_recording.h"
#include "store/sqlite/open.h"
#include "store/testing/test_support.h"

namespace stalltrace::store {
namespace {

FileTables tables_of(const std::string& path) {
  Database db = must(open_for_reading(path));
  return must(FileTables::read(db, is_opened_complete(db)));
}

TEST(FileTables, ATableWithoutRowsIsEmptyAndOthersAreNot) {
  const TemporaryFolder folder;
  for (const int rows : {0, 1, 5'000}) {  // none, a leaf, and pages below the root
    const std::string path = folder / fmt::format("{}.db", rows);
    auto writer = must(RecordingWriter::create(path));
    writer->accept(node_row(1, "a"));
    for (int i = 1; i <= rows; ++i) {
      writer->accept(collective_row(1, static_cast<uint64_t>(i), 1'000 * i, 10));
    }
    must(writer->close());
    const FileTables tables = tables_of(path);
    EXPECT_EQ(tables.is_empty("collective"), rows == 0);
    EXPECT_FALSE(tables.is_empty("node"));
    EXPECT_TRUE(tables.is_empty("tcp_sample"));
    EXPECT_TRUE(tables.is_empty("no_such_table"));
  }
}

TEST(FileTables, FilesWithTheSameTablesHaveTheSameDeclarations) {
  const TemporaryFolder folder;
  for (const std::string name : {"a", "b"}) {
    must(must(RecordingWriter::create(folder / name))->close());
  }
  EXPECT_EQ(tables_of(folder / "a").declarations(), tables_of(folder / "b").declarations());
  must(must(Database::open(folder / "b", SQLITE_OPEN_READWRITE)).execute("DROP TABLE tcp_sample"));
  EXPECT_NE(tables_of(folder / "a").declarations(), tables_of(folder / "b").declarations());
}

/// What its pages hold need not be what its log adds.
TEST(FileTables, NothingIsKnownOfAFileThatIsWritten) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.db";
  auto writer = must(RecordingWriter::create(path));
  writer->accept(collective_row(1, 1, 1'000, 10));
  must(writer->flush());
  EXPECT_FALSE(tables_of(path).is_empty("collective"));
  EXPECT_FALSE(tables_of(path).is_empty("tcp_sample"));
}

}  // namespace
}  // namespace stalltrace::store
