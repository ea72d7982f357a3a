// SPDX-License-Identifier: Apache-2.0
#include "capture/user_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace stalltrace::capture {
namespace {

using testing::ElementsAre;
using Turns = UserTurns<int>;

/// Each item takes as many nanoseconds as its number.
struct Worker {
  int64_t now_ns = 1'000'000;
  std::vector<std::pair<uint32_t, int>> done = {};

  void work(Turns& turns, int64_t slice_ns, Turns::Whose whose = Turns::Whose::kWhoHaveTime) {
    turns.work(
        now_ns + slice_ns, [this] { return now_ns; },
        [this](uint32_t user, int item) {
          now_ns += item;
          done.emplace_back(user, item);
          return true;
        },
        whose);
  }
};

TEST(UserTurns, UsersTakeTurns) {
  Turns turns(10, 1000);
  Worker worker;
  for (const int item : {1, 2, 3}) {
    ASSERT_TRUE(turns.add(1000, item));
  }
  ASSERT_TRUE(turns.add(2000, 4));
  worker.work(turns, 1000);
  EXPECT_THAT(worker.done, ElementsAre(std::pair(1000, 1), std::pair(2000, 4), std::pair(1000, 2), std::pair(1000, 3)));
  EXPECT_TRUE(turns.empty());
}

TEST(UserTurns, ASliceEnds) {
  Turns turns(10, 1000);
  Worker worker;
  for (int item = 0; item < 5; ++item) {
    ASSERT_TRUE(turns.add(1000, 10));
  }
  worker.work(turns, 25);
  EXPECT_EQ(worker.done.size(), 3U);
  EXPECT_TRUE(turns.is_due(worker.now_ns));
  worker.work(turns, 0);
  EXPECT_EQ(worker.done.size(), 4U) << "each slice does something";
}

TEST(UserTurns, AUserHasAShareOfTheQueueAndOthersHaveTheirs) {
  Turns turns(2, 1000);
  EXPECT_TRUE(turns.add(1000, 1));
  EXPECT_TRUE(turns.add(1000, 1));
  EXPECT_FALSE(turns.add(1000, 1));
  EXPECT_TRUE(turns.add(2000, 1));
  turns.add_always(1000, 1);
  Worker worker;
  worker.work(turns, 1000);
  EXPECT_EQ(worker.done.size(), 4U);
  EXPECT_TRUE(turns.add(1000, 1)) << "there is room again";
}

TEST(UserTurns, WhoTookWhatItMayAtOnceHasAShareOfTheTime) {
  Turns turns(1000, 100);
  Worker worker;
  for (int item = 0; item < 1000; ++item) {
    ASSERT_TRUE(turns.add(1000, 10));
  }
  worker.work(turns, 1'000'000);
  EXPECT_NEAR(static_cast<double>(worker.done.size()), 100 / 10, 2) << "at once; its share goes on in that time";
  EXPECT_FALSE(turns.is_due(worker.now_ns));
  EXPECT_FALSE(turns.has_time(1000, worker.now_ns));
  EXPECT_TRUE(turns.has_time(2000, worker.now_ns));
  worker.done.clear();
  const int64_t end_ns = worker.now_ns + 10'000;
  while (worker.now_ns < end_ns) {
    worker.work(turns, 1'000'000);
    worker.now_ns += 10;
  }
  EXPECT_NEAR(static_cast<double>(worker.done.size()), 10'000.0 / 10 / LookBudget::kParts, 3);
  worker.work(turns, 1'000'000, Turns::Whose::kAll);
  EXPECT_TRUE(turns.empty());
}

TEST(UserTurns, WhatIsNotDoneGoesOnAtTheNextTurn) {
  Turns turns(10, 1000);
  ASSERT_TRUE(turns.add(1000, 3));
  ASSERT_TRUE(turns.add(1000, 1));
  ASSERT_TRUE(turns.add(2000, 1));
  int64_t now_ns = 1000;
  std::vector<std::pair<uint32_t, int>> seen;
  turns.work(
      now_ns + 1000, [&] { return ++now_ns; },
      [&](uint32_t user, int& item) {
        seen.emplace_back(user, item);
        return --item == 0;
      });
  EXPECT_THAT(seen, ElementsAre(std::pair(1000, 3), std::pair(2000, 1), std::pair(1000, 2), std::pair(1000, 1),
                                std::pair(1000, 1)));
}

}  // namespace
}  // namespace stalltrace::capture
