// SPDX-License-Identifier: Apache-2.0
// The symbol reader over libraries built for it (testdata/*.c), and over damaged ones: an error, never a crash.
#include "capture/discover/elf_symbols.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "base/file.h"
#include "base/handle.h"

namespace stalltrace::capture {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

std::string fixture(const std::string& name) { return std::string(STALLTRACE_TEST_LIBRARIES) + "/" + name; }

std::set<std::string_view> symbols_of(const FileSymbols& symbols) {
  std::set<std::string_view> result;
  for (const ProbePoint& point : symbols.points) {
    result.insert(call_table()[point.row].symbol);
  }
  return result;
}

class ElfSymbolsTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "elf_symbols_test_" + std::to_string(::getpid());
    bytes_ = read_file(fixture("libcollective_fixture.so")).value_or("");
    ASSERT_GT(bytes_.size(), 4096U);
  }
  void TearDown() override { ::unlink(path_.c_str()); }
  Result<FileSymbols> read_as(const std::string& bytes) {
    EXPECT_TRUE(write_file(path_, bytes));
    return find_probe_points(path_);
  }
  std::string path_;
  std::string bytes_;
};

/// Weak aliases are one point; data of a function's name, names outside the table and the hidden runtime are none.
TEST_F(ElfSymbolsTest, ALibrarysFunctionsOnce) {
  const auto symbols = find_probe_points(fixture("libcollective_fixture.so"));
  ASSERT_TRUE(symbols) << symbols.error().what;
  EXPECT_TRUE(symbols->has_collectives);
  EXPECT_THAT(symbols_of(*symbols), UnorderedElementsAre("ncclAllReduce", "ncclBroadcast"));
  EXPECT_THAT(symbols->points, SizeIs(2));
}

TEST_F(ElfSymbolsTest, AnOffsetLeadsToTheFunctionsBytes) {
  const std::string library = fixture("libcollective_fixture.so");
  const auto symbols = find_probe_points(library);
  ASSERT_TRUE(symbols);
  const std::unique_ptr<void, Free<dlclose>> handle(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
  ASSERT_TRUE(handle) << dlerror();
  for (const ProbePoint& point : symbols->points) {
    const std::string name(call_table()[point.row].symbol);
    const void* address = dlsym(handle.get(), name.c_str());
    ASSERT_TRUE(address) << name;
    ASSERT_LE(point.offset + 8, bytes_.size());
    EXPECT_EQ(std::memcmp(address, bytes_.data() + point.offset, 8), 0) << name;
  }
}

TEST_F(ElfSymbolsTest, ALibraryLinkedIntoAnotherIsFound) {
  const auto symbols = find_probe_points(fixture("libinside_fixture.so"));
  ASSERT_TRUE(symbols) << symbols.error().what;
  EXPECT_TRUE(symbols->has_collectives);
  EXPECT_THAT(symbols_of(*symbols), UnorderedElementsAre("ncclAllReduce", "ncclGroupEnd"));
}

TEST_F(ElfSymbolsTest, MpichsHandlesAreIntsOthersPointers) {
  const auto handles_of = [](const std::string& name) {
    const auto symbols = find_probe_points(fixture(name));
    std::map<std::string_view, bool> result;
    for (const ProbePoint& point : symbols ? symbols->points : std::vector<ProbePoint>()) {
      result[call_table()[point.row].symbol] = point.int_handles;
    }
    return result;
  };
  EXPECT_THAT(handles_of("libmpi_fixture.so"),
              AllOf(Contains(Pair("MPI_Allreduce", true)), Contains(Pair("MPI_Test", true))));
  EXPECT_THAT(handles_of("libcollective_fixture.so"),
              UnorderedElementsAre(Pair("ncclAllReduce", false), Pair("ncclBroadcast", false)));
}

#if defined(__x86_64__)
TEST_F(ElfSymbolsTest, ALoadBeforeAPushIsNotStoodOn) {
  const std::string library = fixture("libmpi_fixture.so");
  const auto symbols = find_probe_points(library);
  ASSERT_TRUE(symbols) << symbols.error().what;
  const std::string bytes = read_file(library).value_or("");
  const std::map<std::string_view, std::string> expected{
      {"MPI_Wait", "\x41\x54\x41\x5c"}, {"MPI_Barrier", "\x48\x8b\x05"}};  // push r12, pop r12; the load
  size_t found = 0;
  for (const ProbePoint& point : symbols->points) {
    if (const auto start = expected.find(call_table()[point.row].symbol); start != expected.end()) {
      EXPECT_EQ(bytes.substr(point.offset, start->second.size()), start->second) << start->first;
      ++found;
    }
  }
  EXPECT_EQ(found, expected.size());
}
#endif

TEST_F(ElfSymbolsTest, ARuntimeIsNoCollectiveLibrary) {
  const auto symbols = find_probe_points(fixture("libruntime_fixture.so"));
  ASSERT_TRUE(symbols) << symbols.error().what;
  EXPECT_FALSE(symbols->has_collectives);
  EXPECT_THAT(symbols_of(*symbols), UnorderedElementsAre("cudaStreamSynchronize", "cudaEventRecord"));
}

TEST_F(ElfSymbolsTest, AProgramWithoutCallsHasNoPoints) {
  const auto symbols = find_probe_points("/bin/sh");
  ASSERT_TRUE(symbols) << symbols.error().what;
  EXPECT_THAT(symbols->points, SizeIs(0));
  EXPECT_FALSE(symbols->has_collectives);
}

TEST_F(ElfSymbolsTest, WhatIsNoElfFileIsAnError) {
  EXPECT_FALSE(find_probe_points("/nonexistent/libnccl.so.2"));
  EXPECT_FALSE(find_probe_points("/"));
  EXPECT_FALSE(read_as(""));
  EXPECT_FALSE(read_as("#!/bin/sh\n"));
  EXPECT_FALSE(
      read_as("\x7f"
              "ELF"));
}

/// Whatever is cut off, the reader answers: an error, or at most the points of the whole file.
TEST_F(ElfSymbolsTest, ATruncatedFileNeverCrashes) {
  for (size_t size = 0; size < bytes_.size(); size += 61) {
    const auto symbols = read_as(bytes_.substr(0, size));
    if (symbols) {
      EXPECT_LE(symbols->points.size(), 2U) << size;
    }
  }
}

TEST_F(ElfSymbolsTest, AGarbledFileNeverCrashes) {
  std::mt19937 random(20261121);
  for (int round = 0; round < 500; ++round) {
    std::string garbled = bytes_;
    for (int i = 0; i < 40; ++i) {
      garbled[random() % garbled.size()] = static_cast<char>(random());
    }
    if (round % 2 == 0) {  // the header and what it points at
      garbled[16 + random() % 48] = static_cast<char>(random());
    }
    static_cast<void>(read_as(garbled));
  }
}

}  // namespace
}  // namespace stalltrace::capture
