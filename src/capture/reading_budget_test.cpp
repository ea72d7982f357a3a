// SPDX-License-Identifier: Apache-2.0
#include "capture/reading_budget.h"

#include <gtest/gtest.h>

namespace stalltrace::capture {
namespace {

TEST(ReadingBudget, WhoTakesLongIsLookedAtLessOften) {
  ReadingBudget budget;
  EXPECT_TRUE(budget.is_due(1, 0));
  budget.was_read(1, 1000, 1500);
  budget.was_read(2, 1500, 1510);
  EXPECT_FALSE(budget.is_due(1, 1000 + 10 * 500 - 1));
  EXPECT_TRUE(budget.is_due(1, 1000 + 10 * 500));
  EXPECT_TRUE(budget.is_due(2, 1600));
}

TEST(ReadingBudget, WhatAUserMayTakeAtOnceComesBackWithTime) {
  constexpr int64_t kAtOnce = 100;
  constexpr int64_t kPart = kAtOnce * ReadingBudget::kParts;
  ReadingBudget budget(kAtOnce);
  int64_t now = 1'000'000;
  const auto read = [&](int64_t took) {
    budget.was_read(1, now, now + took);
    now += took;
  };
  read(kAtOnce / 2);
  EXPECT_TRUE(budget.is_due(1, now));
  read(kAtOnce);
  EXPECT_FALSE(budget.is_due(1, now));
  EXPECT_TRUE(budget.is_due(2, now)) << "another user";
  now += kPart / 2;
  EXPECT_TRUE(budget.is_due(1, now));
  now += 5 * kPart;
  read(kAtOnce + kAtOnce / 2);
  EXPECT_FALSE(budget.is_due(1, now)) << "no more than that comes back";
}

}  // namespace
}  // namespace stalltrace::capture
