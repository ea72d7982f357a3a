// SPDX-License-Identifier: Apache-2.0
// What becomes of processes that wait or were refused; a made-up /proc says whose they are. That libraries are found
// and probed is tested with the kernel (tests/bpf).
#include "capture/discover/job_discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace stalltrace::capture {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using Again = JobDiscovery::Again;
using Whose = JobDiscovery::Whose;

constexpr pid_t kFirst = 50'000'000;  // beyond the numbers that the kernel gives
constexpr uid_t kUser = 4242;
constexpr uid_t kOther = 4343;

class JobDiscoveryTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  void start(pid_t pid, uid_t user) { start(pid, user, user, pid); }
  void start(pid_t pid, uid_t real_user, uid_t user, int64_t start_ticks) {
    const fs::path folder = root_ / std::to_string(pid);
    fs::create_directories(folder);
    std::ofstream(folder / "status") << "Uid:\t" << real_user << "\t" << user << "\t" << user << "\t" << user << "\n";
    std::ofstream(folder / "stat") << pid << " (x) S 1 2 3 4 5 0 7 8 9 10 11 12 13 14 15 16 17 18 " << start_ticks
                                   << " 0 0\n";
    std::ofstream(folder / "maps") << "";
  }
  void end(pid_t pid) { fs::remove_all(root_ / std::to_string(pid)); }
  /// Examines all that waits.
  void examine() {
    discovery_.examine(std::numeric_limits<int64_t>::max(), Whose::kAll, [] {});
  }
  std::vector<pid_t> take_found() { return std::exchange(found_, {}); }

  fs::path root_ = fs::path(testing::TempDir()) / ("job_discovery_" + std::to_string(::getpid()));
  Procfs procfs_{root_.string()};
  std::map<uid_t, bool> has_room_{{kUser, false}, {kOther, true}};
  std::vector<pid_t> found_;
  std::vector<std::vector<pid_t>> gone_;
  JobDiscovery discovery_{nullptr,
                          procfs_,
                          {},
                          {},
                          [this](pid_t pid, Library, uint64_t) {
                            found_.push_back(pid);
                            return has_room_[procfs_.user(pid).value_or(0)];
                          },
                          [this](std::span<const pid_t> pids) {
                            gone_.emplace_back(pids.begin(), pids.end());
                            for (const pid_t pid : pids) {
                              discovery_.on_exit(pid);
                            }
                          },
                          [](const std::string&) {}};
};

TEST_F(JobDiscoveryTest, ARefusedProcessIsReportedAgainUntilThereIsRoom) {
  for (const pid_t pid : {kFirst, kFirst + 1}) {
    start(pid, kUser);
    discovery_.on_call(pid);
  }
  start(kFirst + 2, kOther);
  discovery_.on_call(kFirst + 2);
  EXPECT_THAT(take_found(), ElementsAre(kFirst, kFirst + 1, kFirst + 2));
  discovery_.scan(Again::kNone);
  examine();
  EXPECT_THAT(take_found(), ElementsAre(kFirst)) << "where one has no room, no other has";
  has_room_[kUser] = true;
  examine();
  EXPECT_THAT(take_found(), IsEmpty()) << "not before the next scan";
  discovery_.scan(Again::kNone);
  examine();
  EXPECT_THAT(take_found(), ElementsAre(kFirst, kFirst + 1));
  discovery_.scan(Again::kNone);
  examine();
  EXPECT_THAT(take_found(), IsEmpty()) << "they are followed";
}

TEST_F(JobDiscoveryTest, OneUsersRefusedProcessesDelayNoOthers) {
  has_room_[kOther] = false;
  start(kFirst, kUser);
  start(kFirst + 1, kOther);
  discovery_.on_call(kFirst);
  discovery_.on_call(kFirst + 1);
  take_found();
  has_room_[kOther] = true;
  discovery_.scan(Again::kNone);
  examine();
  EXPECT_THAT(take_found(), testing::UnorderedElementsAre(kFirst, kFirst + 1));
}

TEST_F(JobDiscoveryTest, ARefusedProcessThatHasEndedIsNotReportedAgain) {
  start(kFirst, kUser);
  discovery_.on_call(kFirst);
  take_found();
  has_room_[kUser] = true;
  discovery_.scan(Again::kNone);
  end(kFirst);
  examine();
  EXPECT_THAT(take_found(), IsEmpty());
  discovery_.scan(Again::kNone);
  examine();
  EXPECT_THAT(take_found(), IsEmpty());
  EXPECT_THAT(gone_, ElementsAre(ElementsAre(kFirst)));
}

/// The tracer reads its rings for each report.
TEST_F(JobDiscoveryTest, ThoseThatAreGoneAreReportedTogether) {
  for (pid_t pid = kFirst; pid < kFirst + 3; ++pid) {
    start(pid, kOther);
    discovery_.on_call(pid);
  }
  end(kFirst);
  start(kFirst + 1, kOther, kOther, 7);  // another process with that number
  discovery_.scan(Again::kNone);
  EXPECT_THAT(gone_, ElementsAre(ElementsAre(kFirst, kFirst + 1)));
  discovery_.scan(Again::kNone);
  EXPECT_THAT(gone_, SizeIs(1));
}

TEST_F(JobDiscoveryTest, ARefusedProcessThatChangesItsUserIsTriedAsThatUsers) {
  for (const pid_t pid : {kFirst, kFirst + 1}) {
    start(pid, kUser);
    discovery_.on_call(pid);
  }
  take_found();
  start(kFirst + 1, kOther);
  discovery_.scan(Again::kNone);
  examine();
  EXPECT_THAT(take_found(), testing::UnorderedElementsAre(kFirst, kFirst + 1));
  discovery_.scan(Again::kNone);
  examine();
  EXPECT_THAT(take_found(), ElementsAre(kFirst)) << "the other is followed";
}

TEST_F(JobDiscoveryTest, AScanIsExaminedInSlices) {
  constexpr int kProcesses = 20;
  for (pid_t pid = kFirst; pid < kFirst + kProcesses; ++pid) {
    start(pid, pid % 2 == 0 ? kUser : kOther);
  }
  EXPECT_TRUE(discovery_.is_idle());
  discovery_.scan(Again::kNone);
  int slices = 0;
  for (; !discovery_.is_idle(); ++slices) {
    int examined = 0;
    discovery_.examine(0, Whose::kAll, [&] { ++examined; });
    ASSERT_EQ(examined, 1);
  }
  EXPECT_EQ(slices, kProcesses);
  discovery_.scan(Again::kNone);
  EXPECT_TRUE(discovery_.is_idle()) << "all are known";
}

TEST_F(JobDiscoveryTest, MappingsBeyondTheShareAreTheirUsersLoss) {
  start(kFirst, kUser);
  start(kFirst + 1, kOther);
  const MappedFile file{.inode = 7, .path = "/a"};
  for (size_t i = 0; i < DiscoveryQueue::kMostMappingsOfUser + 2; ++i) {
    discovery_.on_mapping(kFirst, file);
  }
  discovery_.on_mapping(kFirst + 1, file);
  EXPECT_THAT(discovery_.lost_mappings(), ElementsAre(Pair(kUser, 2)));
}

/// Within the time in which a process is assumed to be the same user's.
TEST_F(JobDiscoveryTest, ItsNextProcessTakesItsOwnUsersShare) {
  const MappedFile file{.inode = 7, .path = "/a"};
  start(kFirst, kUser);
  for (size_t i = 0; i < DiscoveryQueue::kMostMappingsOfUser; ++i) {
    discovery_.on_mapping(kFirst, file);
  }
  start(kFirst, kOther, kOther, 7);
  discovery_.on_mapping(kFirst, file);
  EXPECT_THAT(discovery_.lost_mappings(), IsEmpty());
}

/// A program that acts with another user's rights for a moment, as sudo does.
TEST_F(JobDiscoveryTest, AProcessThatChangesItsRightsIsNotAssumedToKeepThem) {
  const MappedFile file{.inode = 7, .path = "/a"};
  start(kFirst, kOther);
  for (size_t i = 0; i < DiscoveryQueue::kMostMappingsOfUser; ++i) {
    discovery_.on_mapping(kFirst, file);
  }
  start(kFirst + 1, kUser, kOther, kFirst + 1);
  discovery_.on_mapping(kFirst + 1, file);
  start(kFirst + 1, kUser);
  discovery_.on_mapping(kFirst + 1, file);
  EXPECT_THAT(discovery_.lost_mappings(), ElementsAre(Pair(kOther, 1)));
}

TEST_F(JobDiscoveryTest, AProcessThatHasEndedTakesNoShare) {
  discovery_.on_mapping(kFirst, {.inode = 7, .path = "/a"});
  EXPECT_TRUE(discovery_.is_idle());
}

}  // namespace
}  // namespace stalltrace::capture
