// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/discovery_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "model/events/loss_sources.h"

namespace stalltrace::capture {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using Whose = DiscoveryQueue::Whose;

constexpr uint32_t kMany = 1000;  // the user who has thousands
constexpr uint32_t kFew = 2000;

class DiscoveryQueueTest : public testing::Test {
 protected:
  /// Examines the next item, which takes this long.
  std::optional<DiscoveryQueue::Item> examine(int64_t took_ns, Whose whose = Whose::kAll) {
    auto item = queue_.take(now_ns_, whose);
    if (item) {
      queue_.was_examined(item->user, now_ns_, now_ns_ + took_ns);
      now_ns_ += took_ns;
    }
    return item;
  }
  void add_processes(uint32_t user, pid_t first, int count) {
    for (pid_t pid = first; pid < first + count; ++pid) {
      queue_.add_process(pid, user, false);
    }
  }
  DiscoveryQueue queue_;
  int64_t now_ns_ = 100 * kNsPerSecond;
};

/// The first scan: a user's processes have the lowest numbers, and each takes as long as one with many mappings.
TEST_F(DiscoveryQueueTest, AUserWithThousandsOfProcessesDelaysAnothersByItsTurns) {
  add_processes(kMany, 1, 5000);
  add_processes(kFew, 10'000, 3);
  const int64_t began_ns = now_ns_;
  int left = 3;
  while (left > 0) {
    const auto item = examine(30 * kNsPerMs);
    ASSERT_TRUE(item);
    left -= item->user == kFew ? 1 : 0;
  }
  EXPECT_LE(now_ns_ - began_ns, 6 * 30 * kNsPerMs);
}

TEST_F(DiscoveryQueueTest, TurnsAreOfTimeAndNotOfItems) {
  add_processes(kMany, 1, 100);
  for (int i = 0; i < 500; ++i) {
    queue_.add_mapping(10'000, kFew, {});
  }
  int slow = 0;
  for (int fast = 0; fast < 500;) {
    const auto next = queue_.take(now_ns_, Whose::kAll);
    ASSERT_TRUE(next);
    const int64_t took_ns = next->user == kMany ? DiscoveryQueue::kTurnNs : DiscoveryQueue::kTurnNs / 100;
    slow += next->user == kMany ? 1 : 0;
    fast += next->user == kFew ? 1 : 0;
    queue_.was_examined(next->user, now_ns_, now_ns_ + took_ns);
    now_ns_ += took_ns;
  }
  EXPECT_LE(slow, 500 / 100 + 1);
  EXPECT_GE(slow, 500 / 100 - 1);
}

TEST_F(DiscoveryQueueTest, WhoHasTakenMoreThanItMayComesAfterTheOthers) {
  add_processes(kMany, 100, 5000);
  const int64_t began_ns = now_ns_;
  while (examine(10 * kNsPerMs, Whose::kWithinBudget)) {
  }
  EXPECT_NEAR(static_cast<double>(now_ns_ - began_ns), DiscoveryQueue::kAtOnceNs, DiscoveryQueue::kAtOnceNs / 5)
      << "the first scan ends; its part of the time goes on in it";
  ASSERT_FALSE(queue_.is_empty());
  add_processes(kFew, 10'000, 50);
  for (int i = 0; i < 50; ++i) {
    const auto item = examine(kNsPerMs / 10);
    ASSERT_TRUE(item);
    EXPECT_EQ(item->user, kFew);
  }
  EXPECT_EQ(examine(kNsPerMs)->user, kMany) << "it is not forgotten";
  now_ns_ += DiscoveryQueue::kAtOnceNs * ReadingBudget::kParts;
  EXPECT_TRUE(examine(kNsPerMs, Whose::kWithinBudget)) << "its time has come back";
}

TEST_F(DiscoveryQueueTest, AUserAloneHasAllTheTime) {
  add_processes(kMany, 1, 5000);
  const int64_t began_ns = now_ns_;
  for (pid_t pid = 1; pid <= 5000; ++pid) {
    const auto item = examine(kNsPerMs);
    ASSERT_TRUE(item);
    EXPECT_EQ(item->pid, pid);
  }
  EXPECT_EQ(now_ns_ - began_ns, 5000 * kNsPerMs);
  EXPECT_TRUE(queue_.is_empty());
}

/// As on a node with hundreds of ranks.
TEST_F(DiscoveryQueueTest, TheFirstScanOfOneUserIsMadeInOneGo) {
  add_processes(kMany, 1, 1000);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(examine(kNsPerMs, Whose::kWithinBudget));
  }
  EXPECT_TRUE(queue_.is_empty());
}

TEST_F(DiscoveryQueueTest, AUserHasAShareOfTheMappingsThatWait) {
  constexpr size_t kBeyond = 3;
  for (size_t i = 0; i < DiscoveryQueue::kMostMappingsOfUser + kBeyond; ++i) {
    queue_.add_mapping(100, kMany, {});
  }
  queue_.add_mapping(200, kFew, {});
  EXPECT_THAT(queue_.lost(), ElementsAre(Pair(kMany, kBeyond)));
  size_t mappings = 0;
  int processes = 0;
  bool of_few = false;
  while (const auto item = examine(1)) {
    mappings += item->mapping ? 1 : 0;
    processes += item->mapping ? 0 : 1;
    of_few = of_few || (item->user == kFew && item->mapping);
    EXPECT_TRUE(item->mapping || item->pid == 100);
  }
  EXPECT_EQ(mappings, DiscoveryQueue::kMostMappingsOfUser + 1);
  EXPECT_EQ(processes, 1) << "what was lost is found in the process as a whole";
  EXPECT_TRUE(of_few);
  queue_.add_mapping(100, kMany, {});
  EXPECT_THAT(queue_.lost(), ElementsAre(Pair(kMany, kBeyond))) << "there is room again";
}

/// They were counted where they waited for their files.
TEST_F(DiscoveryQueueTest, MappingsWhoseFilesWereReadAreNotLost) {
  for (size_t i = 0; i < DiscoveryQueue::kMostMappingsOfUser; ++i) {
    queue_.add_mapping(100, kMany, {});
  }
  queue_.add_read_mapping(100, kMany, {});
  EXPECT_THAT(queue_.lost(), IsEmpty());
}

TEST(DiscoveryQueueLosses, UsersWithoutNumberAreOne) {
  constexpr uint32_t kUsers = 1030;
  constexpr uint32_t kWithNumber = 1024;
  DiscoveryQueue queue(1);
  for (uint32_t user = 1; user <= kUsers; ++user) {
    queue.add_mapping(100, user, {});
    queue.add_mapping(100, user, {});
  }
  EXPECT_EQ(queue.lost().size(), kWithNumber + 1);
  EXPECT_EQ(queue.lost().at(kOtherUsers), kUsers - kWithNumber);
}

/// A call may follow a mapping; but a program that maps and unmaps code without end must not hide its user's processes.
TEST_F(DiscoveryQueueTest, NewMappingsComeFirstAndProcessesNowAndThen) {
  add_processes(kMany, 1, 2);
  for (size_t i = 0; i < 3 * DiscoveryQueue::kMappingsInARow; ++i) {
    queue_.add_mapping(100, kMany, {});
  }
  for (pid_t pid = 1; pid <= 2; ++pid) {
    for (size_t i = 0; i < DiscoveryQueue::kMappingsInARow; ++i) {
      ASSERT_TRUE(examine(1)->mapping);
    }
    const auto item = examine(1);
    EXPECT_FALSE(item->mapping);
    EXPECT_EQ(item->pid, pid);
  }
  EXPECT_TRUE(examine(1)->mapping);
}

TEST_F(DiscoveryQueueTest, AProcessWaitsOnce) {
  queue_.add_process(7, kMany, false);
  queue_.add_process(7, kMany, true);
  queue_.add_process(7, kMany, false);
  const auto item = examine(1);
  ASSERT_TRUE(item);
  EXPECT_TRUE(item->also_heir);
  EXPECT_FALSE(examine(1));
  queue_.add_process(7, kMany, false);
  EXPECT_FALSE(examine(1)->also_heir);
}

/// Its number is another process's by now, or it has given up its rights: whose queue is long must not delay it.
TEST_F(DiscoveryQueueTest, AProcessWaitsAmongThoseOfItsLatestUser) {
  add_processes(kMany, 1, 1000);
  queue_.add_process(1000, kFew, true);
  const auto first = examine(DiscoveryQueue::kTurnNs);
  const auto second = examine(DiscoveryQueue::kTurnNs);
  ASSERT_TRUE(first && second);
  const DiscoveryQueue::Item& few = first->user == kFew ? *first : *second;
  EXPECT_EQ(few.user, kFew);
  EXPECT_EQ(few.pid, 1000);
  EXPECT_TRUE(few.also_heir);
  for (int left = 998; left > 0; --left) {
    EXPECT_NE(examine(1)->pid, 1000) << "once";
  }
  EXPECT_TRUE(queue_.is_empty());
}

TEST_F(DiscoveryQueueTest, ProcessesThatHaveEndedDoNotAddUp) {
  add_processes(kMany, 1, 1000);
  add_processes(kFew, 2000, 10);
  queue_.keep_only([](pid_t pid) { return pid == 500; });
  EXPECT_EQ(examine(1)->pid, 500);
  EXPECT_TRUE(queue_.is_empty());
  queue_.add_process(1, kMany, false);
  EXPECT_EQ(examine(1)->pid, 1) << "the next process of that number";
}

}  // namespace
}  // namespace stalltrace::capture
