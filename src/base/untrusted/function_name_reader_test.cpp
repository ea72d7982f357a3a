// SPDX-License-Identifier: Apache-2.0
#include "base/untrusted/function_name_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/clock.h"
#include "base/elf/testing/small_elf.h"

// Outside the anonymous namespace so that its symbol can be found.
namespace stalltrace::function_name_reader_test {
__attribute__((noipa)) int a_function_to_name() { return 7; }
}  // namespace stalltrace::function_name_reader_test

namespace stalltrace {
namespace {

namespace fs = std::filesystem;

/// The offset of the function above in this program's file.
uint64_t offset_of_function() {
  const auto address = reinterpret_cast<uint64_t>(function_name_reader_test::a_function_to_name);
  for (const MappedFile& one : Procfs().executable_mappings(::getpid()).value_or(std::vector<MappedFile>())) {
    if (address >= one.start && address < one.end) {
      return address - one.start + one.offset;
    }
  }
  return 0;
}

TEST(FunctionNameReader, FilesOfOthersAreReadByAChild) {
  const std::string copy = testing::TempDir() + "function_names." + std::to_string(::getpid());
  fs::copy_file("/proc/self/exe", copy, fs::copy_options::overwrite_existing);
  ASSERT_EQ(::chmod(copy.c_str(), 0777), 0);  // writable for all users, then
  const auto file = UntrustedFile::open_path(copy);
  ASSERT_TRUE(file);
  FunctionNameReader reader;
  const std::vector<uint64_t> offsets{offset_of_function(), 1};
  const auto children = [] {
    size_t count = 0;
    for (const pid_t pid : Procfs().pids()) {
      count += Procfs().parent(pid) == ::getpid() ? 1 : 0;
    }
    return count;
  };
  const size_t before = children();
  for (int round = 0; round < 2; ++round) {
    const auto locations = reader.functions_at(*file, offsets, 20 * kNsPerSecond);
    ASSERT_TRUE(locations);
    ASSERT_EQ(locations->size(), 2U);
    ASSERT_TRUE((*locations)[0]);
    EXPECT_EQ((*locations)[0]->function, "stalltrace::function_name_reader_test::a_function_to_name()");
    EXPECT_EQ((*locations)[0]->into, 0U);
    EXPECT_FALSE((*locations)[1]);
  }
  EXPECT_EQ(children(), before + 1);
  EXPECT_FALSE(reader.functions_at(*file, offsets, 0)) << "no time";
  fs::remove(copy);
}

TEST(FunctionNameReader, ItsTimeHoldsInThisProcessToo) {
  const auto file = UntrustedFile::open_path("/proc/self/exe");
  ASSERT_TRUE(file);
  FunctionNameReader reader("/usr/lib/debug", FunctionNameReader::ReadBy::kThisProcess);
  const std::vector<uint64_t> offsets{offset_of_function()};
  const auto named = reader.functions_at(*file, offsets, 20 * kNsPerSecond);
  ASSERT_TRUE(named);
  EXPECT_TRUE((*named)[0]);
  const auto without_time = reader.functions_at(*file, offsets, -1);
  ASSERT_TRUE(without_time);
  EXPECT_FALSE((*without_time)[0]);
}

TEST(FunctionNameReader, AStrippedFilesNamesAreInTheFileOfItsSymbols) {
  const std::string folder = testing::TempDir() + "symbols." + std::to_string(::getpid());
  const std::string symbols = folder + "/.build-id/01/23456789abcdef.debug";
  fs::create_directories(folder + "/.build-id/01");
  SmallElf stripped("");
  stripped.symbol = {};
  stripped.add_build_id();
  SmallElf debug("train_step");
  debug.add_build_id();
  debug.segment.p_filesz = 0;  // it has no code
  debug.write(symbols);
  const std::vector<uint64_t> offsets{0x104, 0x2000, 0x200};
  FunctionNameReader reader(folder);
  for (const bool others : {false, true}) {  // the second is read by the child
    stripped.write(folder + "/stripped");
    ASSERT_EQ(::chmod((folder + "/stripped").c_str(), others ? 0777 : 0755), 0);
    const auto file = UntrustedFile::open_path(folder + "/stripped");
    ASSERT_TRUE(file);
    const auto locations = reader.functions_at(*file, offsets, 20 * kNsPerSecond);
    ASSERT_TRUE(locations);
    ASSERT_TRUE((*locations)[0]);
    EXPECT_EQ((*locations)[0]->function, "train_step");
    EXPECT_EQ((*locations)[0]->into, 4U);
    EXPECT_FALSE((*locations)[1]) << "no code";
    EXPECT_FALSE((*locations)[2]) << "no symbol covers it";
    ASSERT_EQ(::chmod(symbols.c_str(), 0666), 0);  // any user may have made them
    EXPECT_FALSE((*reader.functions_at(*file, offsets, 20 * kNsPerSecond))[0]);
    ASSERT_EQ(::chmod(symbols.c_str(), 0644), 0);
  }
  fs::remove_all(folder);
}

TEST(FunctionNameReader, GarbledAddressesAreRefused) {
  const std::string whole = addresses_to_bytes({.build_id = "01ab", .addresses = {7, 0}}) + "rest";
  std::string_view bytes = whole;
  const auto back = addresses_from_bytes(bytes, 2);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->build_id, "01ab");
  EXPECT_EQ(back->addresses, (std::vector<uint64_t>{7, 0}));
  EXPECT_EQ(bytes, "rest");
  for (size_t size = 0; size + 4 < whole.size(); ++size) {
    bytes = std::string_view(whole).substr(0, size);
    EXPECT_FALSE(addresses_from_bytes(bytes, 2)) << size;
  }
  bytes = whole;
  EXPECT_FALSE(addresses_from_bytes(bytes, 3)) << "not of what was asked";
  for (const std::string& id : std::vector<std::string>{"../../etc/x", "01AB", std::string(200, 'a')}) {
    const std::string rude = addresses_to_bytes({.build_id = id, .addresses = {}});
    bytes = rude;
    EXPECT_FALSE(addresses_from_bytes(bytes, 2)) << id;
  }
}

TEST(FunctionNameReader, GarbledAnswersAreRefused) {
  const std::vector<std::optional<CodeLocation>> locations{CodeLocation{.function = "f()", .into = 5}, std::nullopt};
  const std::string whole = locations_to_bytes(locations);
  const auto back = locations_from_bytes(whole, 2);
  ASSERT_TRUE(back);
  EXPECT_EQ((*back)[0]->function, "f()");
  EXPECT_EQ((*back)[0]->into, 5U);
  EXPECT_FALSE((*back)[1]);
  EXPECT_FALSE(locations_from_bytes(whole, 1)) << "more than was asked";
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(locations_from_bytes(whole.substr(0, size), 2)) << size;
  }
  const std::vector<std::optional<CodeLocation>> rude{CodeLocation{.function = "\x1b[2J" + std::string(10'000, 'a')}};
  const auto tamed = locations_from_bytes(locations_to_bytes(rude), 1);
  ASSERT_TRUE(tamed);
  EXPECT_LT((*tamed)[0]->function.size(), 300U);
  EXPECT_EQ((*tamed)[0]->function.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace stalltrace
