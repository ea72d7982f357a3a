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

}  // namespace
}  // namespace stalltrace::capture
