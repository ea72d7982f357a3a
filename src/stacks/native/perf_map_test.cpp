// SPDX-License-Identifier: Apache-2.0
#include "stacks/native/perf_map.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <filesystem>
#include <random>

#include "base/clock.h"
#include "base/file.h"

namespace stalltrace::stacks {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr int64_t kTimeNs = 20 * kNsPerSecond;

std::map<uint64_t, std::string> names(std::string_view text, std::vector<uint64_t> addresses) {
  const auto found = names_in_perf_map(text, addresses, kTimeNs);
  EXPECT_TRUE(found);
  return found.value_or(std::map<uint64_t, std::string>());
}

TEST(NamesInPerfMap, AddressesWithinTheirFunctions) {
  const std::string_view text = "7f00 10 py::step:/home/u/train.py\n0x7f10 8 LazyCompile:*load data.js:7\n";
  EXPECT_THAT(names(text, {0x7eff, 0x7f00, 0x7f0f, 0x7f17, 0x7f18}),
              ElementsAre(Pair(0x7f00, "py::step:/home/u/train.py"), Pair(0x7f0f, "py::step:/home/u/train.py"),
                          Pair(0x7f17, "LazyCompile:*load data.js:7")));
  EXPECT_THAT(names("", {1}), IsEmpty());
  EXPECT_THAT(names(text, {}), IsEmpty());
}

TEST(NamesInPerfMap, UnsortedAndOverlappingTheLastCounts) {
  const std::string_view text = "9000 100 later\n1000 1000 old\n1800 10 new\n1000 1 first byte\n";
  EXPECT_THAT(names(text, {0x1000, 0x1001, 0x1805, 0x1900, 0x9001}),
              ElementsAre(Pair(0x1000, "first byte"), Pair(0x1001, "old"), Pair(0x1805, "new"), Pair(0x1900, "old"),
                          Pair(0x9001, "later")));
}

TEST(NamesInPerfMap, GarbageIsSkipped) {
  const std::string zeros(100, '\0');
  const std::string text = zeros + "\n\n \n10\n10 20\n10 20 \n10 0 empty\nzz 20 x\n-10 20 x\n10  20 x\n" +
                           "ffffffffffffffff ff wraps\n11111111111111111 1 too long\n20 5 f\x1b[2J\n30 5 not ended";
  EXPECT_THAT(names(text, {0x10, 0x12, 0x20, 0x30, 0xffffffffffffffff}), ElementsAre(Pair(0x20, "f?[2J")));
}

TEST(NamesInPerfMap, ALongNameIsCut) {
  const auto found = names("10 10 " + std::string(1'000'000, 'x') + "\n", {0x10});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_LT(found.begin()->second.size(), 200U);
}

TEST(NamesInPerfMap, ItsTimeIsLimited) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) {
    text += "0 ffffffff everything\n";
  }
  std::vector<uint64_t> addresses(100'000);
  for (size_t i = 0; i < addresses.size(); ++i) {
    addresses[i] = i;
  }
  EXPECT_FALSE(names_in_perf_map(text, addresses, 0)) << "no names rather than old ones";
  EXPECT_LT(names(text, addresses).size(), addresses.size()) << "their number is limited";
}

TEST(NamesInPerfMap, RandomBytes) {
  std::mt19937 random(1);
  constexpr std::string_view kAlphabet = "0123456789abcdefx \n\xff";
  std::vector<uint64_t> addresses;
  for (uint64_t i = 0; i < 64; ++i) {
    addresses.push_back(i);
  }
  size_t found = 0;
  for (int round = 0; round < 200; ++round) {
    std::string text(2000, ' ');
    for (char& c : text) {
      c = kAlphabet[random() % kAlphabet.size()];
    }
    for (const auto& [address, name] : names(text, addresses)) {
      EXPECT_THAT(addresses, testing::Contains(address));
      EXPECT_FALSE(name.empty());
      ++found;
    }
  }
  EXPECT_GT(found, 0U) << "some lines are good by chance";
}

/// This process's own map.
class ReadPerfMap : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_FALSE(std::filesystem::exists(path_))
        << path_ << ": something profiles this program, or was killed; remove it";
    mine_ = true;
  }
  void TearDown() override {
    if (mine_) {
      std::filesystem::remove(path_);
    }
  }
  std::string read() {
    const Procfs procfs;
    Mounts mounts(procfs);
    return read_perf_map(procfs, mounts, ::getpid(), monotonic_now_ns() + kTimeNs);
  }

  const std::string path_ = fmt::format("/tmp/perf-{}.map", Procfs().inner_pid(::getpid()));
  bool mine_ = false;
};

TEST_F(ReadPerfMap, OnlyWhatTheProcessesUserWrote) {
  EXPECT_EQ(read(), "");
  ASSERT_TRUE(write_file(path_, "10 10 f\n"));
  EXPECT_EQ(read(), "10 10 f\n");
  ASSERT_EQ(::chmod(path_.c_str(), 0666), 0);
  EXPECT_EQ(read(), "") << "any user may have written it";
}

TEST_F(ReadPerfMap, NotThatOfAnEarlierProcess) {
  ASSERT_TRUE(write_file(path_, "10 10 f\n"));
  EXPECT_EQ(read(), "10 10 f\n");
  const int64_t hour_ago_s = utc_now_ns() / kNsPerSecond - 3600;
  const timespec times[2] = {{.tv_sec = hour_ago_s, .tv_nsec = 0}, {.tv_sec = hour_ago_s, .tv_nsec = 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  EXPECT_EQ(read(), "") << "this process began later";
}

TEST_F(ReadPerfMap, ItsTimeIsLimited) {
  const Procfs procfs;
  Mounts mounts(procfs);
  ASSERT_TRUE(write_file(path_, "10 10 f\n"));
  EXPECT_EQ(read_perf_map(procfs, mounts, ::getpid(), monotonic_now_ns() - 1), "");
}

TEST_F(ReadPerfMap, NoLinkNoFifoNoHugeFile) {
  ASSERT_EQ(::symlink("/etc/passwd", path_.c_str()), 0);
  EXPECT_EQ(read(), "");
  ASSERT_TRUE(std::filesystem::remove(path_));
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(read(), "") << "and it does not wait";
  ASSERT_TRUE(std::filesystem::remove(path_));
  ASSERT_TRUE(write_file(path_, "10 10 f\n"));
  ASSERT_EQ(::truncate(path_.c_str(), kMostPerfMapBytes + 1), 0);
  EXPECT_EQ(read(), "");
  ASSERT_EQ(::truncate(path_.c_str(), kMostPerfMapBytes), 0);
  EXPECT_EQ(read().size(), static_cast<size_t>(kMostPerfMapBytes));
}

}  // namespace
}  // namespace stalltrace::stacks
