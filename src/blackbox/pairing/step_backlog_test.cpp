// SPDX-License-Identifier: Apache-2.0
#include "blackbox/pairing/step_backlog.h"

#include <gtest/gtest.h>

namespace stalltrace::blackbox {
namespace {

constexpr size_t kMost = 8192;

ProxyStep step(int32_t number) {
  ProxyStep row;
  row.step = number;
  return row;
}

TEST(StepBacklog, GivesACollectiveItsStepsOnceInTheirOrder) {
  StepBacklog backlog;
  backlog.hold(1, step(10));
  backlog.hold(2, step(20));
  backlog.hold(1, step(11));
  const auto taken = backlog.take(1);
  ASSERT_EQ(taken.size(), 2);
  EXPECT_EQ(taken[0].step, 10);
  EXPECT_EQ(taken[1].step, 11);
  EXPECT_TRUE(backlog.take(1).empty());
  EXPECT_EQ(backlog.take_all().size(), 1);
  EXPECT_TRUE(backlog.take_all().empty());
}

TEST(StepBacklog, TheOldestCollectivesStepsGoFirst) {
  StepBacklog backlog;
  EXPECT_TRUE(backlog.hold(1, step(0)).empty());
  EXPECT_TRUE(backlog.hold(1, step(1)).empty());
  for (size_t n = 2; n < kMost; ++n) {
    EXPECT_TRUE(backlog.hold(2, step(2)).empty());
  }
  const auto given_up = backlog.hold(3, step(3));
  ASSERT_EQ(given_up.size(), 2);
  EXPECT_EQ(given_up[0].step, 0);
  EXPECT_EQ(backlog.take(3).size(), 1);
}

TEST(StepBacklog, CollectivesThatCameDuringItDoNotCountForever) {
  StepBacklog backlog;
  for (uint64_t collective = 1; collective <= 3 * kMost; ++collective) {
    EXPECT_TRUE(backlog.hold(collective, step(0)).empty());
    EXPECT_EQ(backlog.take(collective).size(), 1);
  }
}

}  // namespace
}  // namespace stalltrace::blackbox
