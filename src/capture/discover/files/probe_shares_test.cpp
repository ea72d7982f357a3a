// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/files/probe_shares.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace stalltrace::capture {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kUser = 1000;
constexpr int64_t kStart = 1000 * kNsPerSecond;

/// A host that is a folder: a process lives while it has a file.
class ProbeSharesTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / ("probe_shares_" + std::to_string(::getpid()));
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  void begin(pid_t pid) {
    fs::create_directories(root_ / std::to_string(pid));
    std::ofstream(root_ / std::to_string(pid) / "stat") << "1 (x) S";
  }
  void end(pid_t pid) { fs::remove_all(root_ / std::to_string(pid)); }
  static FileIdentity file(size_t number) { return {.file = std::to_string(number)}; }
  /// False: there was no room.
  bool probe(size_t number, pid_t pid, int64_t now_ns = kStart) {
    if (!shares_.has_room(kUser, now_ns)) {
      return false;
    }
    shares_.count_attempt(kUser, now_ns);
    shares_.add(kUser, file(number), pid, [this, number] { detached_.push_back(number); });
    return true;
  }

  fs::path root_;
  Procfs procfs_{(fs::path(testing::TempDir()) / ("probe_shares_" + std::to_string(::getpid()))).string()};
  ProbeShares shares_{procfs_};
  std::vector<size_t> detached_;
};

TEST_F(ProbeSharesTest, RoomThatIsNoLongerNeededIsGivenBack) {
  begin(1);
  begin(2);
  for (size_t i = 0; i < ProbeShares::kMost; ++i) {
    ASSERT_TRUE(probe(i, i == 7 ? 2 : 1)) << i;
  }
  const int64_t later_ns = kStart + 10 * ProbeShares::kAttemptNs;
  EXPECT_FALSE(probe(100, 1, later_ns)) << "all are mapped";
  EXPECT_TRUE(shares_.has_room(kUser + 1, later_ns)) << "another user's";
  end(2);
  begin(3);
  shares_.add_user(kUser, file(7), 3);
  EXPECT_FALSE(probe(100, 1, later_ns)) << "another process maps it";
  end(3);
  EXPECT_TRUE(probe(100, 1, later_ns));
  EXPECT_EQ(detached_, std::vector<size_t>{7});
}

TEST_F(ProbeSharesTest, AttemptsHaveARate) {
  for (size_t i = 0; i < ProbeShares::kMost; ++i) {
    ASSERT_TRUE(shares_.has_room(kUser, kStart)) << i;
    shares_.count_attempt(kUser, kStart);
  }
  EXPECT_FALSE(shares_.has_room(kUser, kStart + ProbeShares::kAttemptNs - 1)) << "all were in vain";
  EXPECT_TRUE(shares_.has_room(kUser, kStart + ProbeShares::kAttemptNs));
}

}  // namespace
}  // namespace stalltrace::capture
