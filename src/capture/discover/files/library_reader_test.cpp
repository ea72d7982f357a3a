// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/files/library_reader.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "capture/discover/files/library_symbols.h"
#include "wire/python.h"

namespace stalltrace::capture {
namespace {

constexpr uint64_t kFileBytes = 1 << 20;

TEST(LibraryReader, SymbolsComeThroughAsTheyWere) {
  FileSymbols symbols;
  symbols.points = {{.offset = 0x1000, .row = 3, .int_handles = true}, {.offset = kFileBytes - 1, .row = 0}};
  symbols.has_collectives = true;
  symbols.marker = MarkerPoint{.function_offset = 7, .semaphore_offset = 8};
  symbols.mpi_world = MpiWorld{.address = 1, .segment_address = 2, .segment_offset = 3, .segment_bytes = 4};
  symbols.python = {{.offset = 9, .function = ST_PYTHON_DISPLAYS, .minor = 12, .runtime_distance = -5}};
  symbols.code = 0x1234567890;
  const std::string bytes = symbols_to_bytes(symbols);
  const auto back = symbols_from_bytes(bytes, kFileBytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(symbols_to_bytes(*back), bytes);
  EXPECT_EQ(back->points.size(), 2U);
  EXPECT_TRUE(back->points[0].int_handles);
  EXPECT_EQ(back->mpi_world->segment_bytes, 4U);
  EXPECT_EQ(back->python.at(0).runtime_distance, -5);
}

/// The file that the parser read may have subverted it.
TEST(LibraryReader, GarbledSymbolsAreRefused) {
  FileSymbols symbols;
  symbols.points = {{.offset = 0x1000, .row = 3}};
  const std::string whole = symbols_to_bytes(symbols);
  const std::string empty = symbols_to_bytes({});
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(symbols_from_bytes(whole.substr(0, size), kFileBytes).has_value(), size == empty.size()) << size;
  }
  symbols.points[0].row = static_cast<uint32_t>(call_table().size());
  EXPECT_FALSE(symbols_from_bytes(symbols_to_bytes(symbols), kFileBytes)) << "no such row";
  std::string odd = whole;
  odd[0] = 2;
  EXPECT_FALSE(symbols_from_bytes(odd, kFileBytes)) << "no flag";
}

TEST(LibraryReader, PointsThatTheFileCanNotHaveAreRefused) {
  const auto comes_through = [](const FileSymbols& symbols) {
    return symbols_from_bytes(symbols_to_bytes(symbols), kFileBytes).has_value();
  };
  FileSymbols symbols;
  symbols.points = {{.offset = kFileBytes - 1, .row = 3}};
  EXPECT_TRUE(comes_through(symbols));
  symbols.points[0].offset = kFileBytes;
  EXPECT_FALSE(comes_through(symbols)) << "behind its end";
  symbols.points = {{.offset = 5, .row = 3}, {.offset = 5, .row = 4}};
  EXPECT_FALSE(comes_through(symbols)) << "twice";
  symbols.points.clear();
  for (uint64_t offset = 0; offset < kMostProbePoints; ++offset) {
    symbols.points.push_back({.offset = offset, .row = 3});
  }
  EXPECT_TRUE(comes_through(symbols));
  symbols.points.push_back({.offset = kMostProbePoints, .row = 3});
  EXPECT_FALSE(comes_through(symbols)) << "more than are looked for";
  symbols.points.clear();
  const PythonPoint right{.offset = 5, .function = ST_PYTHON_PRINTS, .minor = 12};
  symbols.python = {right};
  EXPECT_TRUE(comes_through(symbols));
  symbols.python[0].offset = kFileBytes;
  EXPECT_FALSE(comes_through(symbols));
  symbols.python[0] = right;
  symbols.python[0].function = ST_PYTHON_DISPLAYS + 1;
  EXPECT_FALSE(comes_through(symbols));
  symbols.python[0] = right;
  symbols.python[0].minor = ST_PYTHON_VERSIONS;
  EXPECT_FALSE(comes_through(symbols));
  symbols.python = {right, right};
  EXPECT_FALSE(comes_through(symbols)) << "twice";
  symbols.python.clear();
  symbols.marker = MarkerPoint{.function_offset = 1, .semaphore_offset = kFileBytes};
  EXPECT_FALSE(comes_through(symbols));
}

std::vector<pid_t> children() {
  const Procfs procfs;
  std::vector<pid_t> found = procfs.pids();
  std::erase_if(found, [&](pid_t pid) { return procfs.parent(pid) != ::getpid(); });
  return found;
}

/// Its socket would stay readable, and wake a tracer that has nothing to do all the time.
TEST(LibraryReader, AnIdleChildThatDiesWakesNoThreadAndCostsNoFile) {
  const Procfs procfs;
  Mounts mounts(procfs);
  const std::vector<pid_t> others = children();  // of earlier tests, which may still be ending
  const auto helpers_now = [&] {
    std::vector<pid_t> found = children();
    std::erase_if(found, [&](pid_t pid) { return std::ranges::find(others, pid) != others.end(); });
    return found;
  };
  LibraryReader reader(procfs, mounts, LibraryReader::FileSystems::kRemote);
  const auto mappings = procfs.executable_mappings(::getpid()).value_or(std::vector<MappedFile>());
  ASSERT_FALSE(mappings.empty());
  pollfd wake{.fd = reader.descriptor(), .events = POLLIN, .revents = 0};
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(reader.ask({.pid = ::getpid(), .user = 0, .mapping = mappings[0]}));
    std::optional<LibraryReader::Answer> answer;
    for (int i = 0; i < 500 && !answer; ++i) {
      answer = reader.take();
      ::poll(&wake, 1, answer ? 0 : 20);
    }
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->outcome, LibraryReader::Outcome::kRead) << LibraryReader::describe(answer->outcome);
    const auto helpers = helpers_now();
    ASSERT_EQ(helpers.size(), 2U);
    for (const pid_t pid : helpers) {
      ASSERT_EQ(::kill(pid, SIGKILL), 0);
    }
    ASSERT_EQ(::poll(&wake, 1, 5000), 1);
    for (int i = 0; i < 500 && !helpers_now().empty(); ++i) {  // until both are reaped
      EXPECT_FALSE(reader.take());
      ::usleep(10'000);
    }
    EXPECT_TRUE(helpers_now().empty());
    EXPECT_EQ(::poll(&wake, 1, 100), 0);
  }
}

/// This program's own mappings, read by child processes.
class ReadByChildren : public testing::TestWithParam<LibraryReader::FileSystems> {};

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
      EXPECT_EQ(answer->outcome == LibraryReader::Outcome::kRead, answer->request.user != 3)
          << answer->request.mapping.path;
      opened += answer->opened.has_value();
      ++answers;
    }
  }
  EXPECT_EQ(opened, 3 * mappings.size());
  EXPECT_EQ(answers, 3 * mappings.size() + 1);
}

INSTANTIATE_TEST_SUITE_P(FileSystems, ReadByChildren,
                         testing::Values(LibraryReader::FileSystems::kThisHost, LibraryReader::FileSystems::kRemote));

}  // namespace
}  // namespace stalltrace::capture
