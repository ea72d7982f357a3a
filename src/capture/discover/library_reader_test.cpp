// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/library_reader.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "capture/discover/library_symbols.h"

namespace stalltrace::capture {
namespace {

TEST(LibraryReader, SymbolsComeThroughAsTheyWere) {
  FileSymbols symbols;
  symbols.points = {{.offset = 0x1000, .row = 3, .int_handles = true}, {.offset = UINT64_MAX, .row = 0}};
  symbols.has_collectives = true;
  symbols.marker = MarkerPoint{.function_offset = 7, .semaphore_offset = 8};
  symbols.mpi_world = MpiWorld{.address = 1, .segment_address = 2, .segment_offset = 3, .segment_bytes = 4};
  symbols.code = 0x1234567890;
  const std::string bytes = symbols_to_bytes(symbols);
  const auto back = symbols_from_bytes(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(symbols_to_bytes(*back), bytes);
  EXPECT_EQ(back->points.size(), 2U);
  EXPECT_TRUE(back->points[0].int_handles);
  EXPECT_EQ(back->mpi_world->segment_bytes, 4U);
}

/// The file that the parser read may have subverted it.
TEST(LibraryReader, GarbledSymbolsAreRefused) {
  FileSymbols symbols;
  symbols.points = {{.offset = 0x1000, .row = 3}};
  const std::string whole = symbols_to_bytes(symbols);
  const std::string empty = symbols_to_bytes({});
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(symbols_from_bytes(whole.substr(0, size)).has_value(), size == empty.size()) << size;
  }
  symbols.points[0].row = static_cast<uint32_t>(call_table().size());
  EXPECT_FALSE(symbols_from_bytes(symbols_to_bytes(symbols))) << "no such row";
  std::string odd = whole;
  odd[0] = 2;
  EXPECT_FALSE(symbols_from_bytes(odd)) << "no flag";
}

/// This program's own mappings, read by child processes.
class ReadByChildren : public testing::TestWithParam<LibraryReader::Place> {};

TEST_P(ReadByChildren, EachFileIsAnsweredOnce) {
  const Procfs procfs;
  Mounts mounts(procfs);
  LibraryReader reader(procfs, mounts, GetParam());
  const auto mappings = procfs.executable_mappings(::getpid()).value_or(std::vector<MappedFile>());
  ASSERT_FALSE(mappings.empty());
  for (uid_t user = 0; user < 3; ++user) {
    for (const MappedFile& mapping : mappings) {
      ASSERT_TRUE(reader.ask({.pid = ::getpid(), .user = user, .mapping = mapping}));
    }
  }
  ASSERT_TRUE(
      reader.ask({.pid = ::getpid(), .user = 3, .mapping = {.start = 1, .end = 2, .inode = 1, .path = "/gone"}}));
  size_t opened = 0;
  size_t answers = 0;
  while (!reader.is_idle()) {
    pollfd wake{.fd = reader.descriptor(), .events = POLLIN, .revents = 0};
    ::poll(&wake, 1, 100);
    while (const auto answer = reader.take()) {
      EXPECT_TRUE(answer->symbols || answer->symbols.error().kind == ErrorKind::kCorrupt)
          << answer->request.mapping.path;
      opened += answer->opened.has_value();
      ++answers;
    }
  }
  EXPECT_EQ(opened, 3 * mappings.size());
  EXPECT_EQ(answers, 3 * mappings.size() + 1);
}

INSTANTIATE_TEST_SUITE_P(Places, ReadByChildren,
                         testing::Values(LibraryReader::Place::kThisHost, LibraryReader::Place::kRemote));

}  // namespace
}  // namespace stalltrace::capture
