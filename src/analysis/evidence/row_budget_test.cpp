// SPDX-License-Identifier: Apache-2.0
// Who gets the room where a table has more rows than fit.
#include "analysis/evidence/row_budget.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace stalltrace::analysis {
namespace {

/// Three stalls of less than a second, a minute apart.
IntervalSet three_windows() {
  std::vector<Interval> windows;
  for (int64_t i = 0; i < 3; ++i) {
    windows.push_back({i * 60 * kNsPerSecond, i * 60 * kNsPerSecond + kNsPerSecond / 2});
  }
  return IntervalSet(std::move(windows));
}

/// Rows that are kept of each window, where it has that many.
std::vector<int64_t> kept_of(RowBudget& budget, const std::vector<int64_t>& rows) {
  std::vector<int64_t> kept(rows.size());
  const auto read = [&]() -> Status {
    for (size_t i = 0; i < rows.size(); ++i) {
      for (int64_t n = 0; n < rows[i]; ++n) {
        kept[i] += budget.room(static_cast<int64_t>(i) * 60 * kNsPerSecond + n) ? 1 : 0;
      }
    }
    return {};
  };
  EXPECT_TRUE(read_fairly(budget, read, [&] { kept.assign(rows.size(), 0); }));
  return kept;
}

TEST(RowBudget, WhatFitsIsKept) {
  RowBudget budget(three_windows(), 100);
  EXPECT_EQ(kept_of(budget, {70, 0, 30}), (std::vector<int64_t>{70, 0, 30}));
  EXPECT_EQ(budget.dropped(), 0);
}

TEST(RowBudget, ABusyStallDoesNotTakeTheRoomOfLaterOnes) {
  RowBudget budget(three_windows(), 100);
  EXPECT_EQ(kept_of(budget, {1000, 20, 500}), (std::vector<int64_t>{40, 20, 40}));
  EXPECT_EQ(budget.dropped(), 1420);
}

TEST(RowBudget, SecondsOfALongStallShareItsRoom) {
  RowBudget budget(IntervalSet({{0, 10 * kNsPerSecond}}), 100);
  std::vector<int64_t> kept(10);
  const auto read = [&]() -> Status {
    for (int64_t n = 0; n < 2000; ++n) {
      kept[static_cast<size_t>(n / 200)] += budget.room(n * 5 * kNsPerMs) ? 1 : 0;
    }
    return {};
  };
  ASSERT_TRUE(read_fairly(budget, read, [&] { kept.assign(10, 0); }));
  for (const int64_t of_second : kept) {
    EXPECT_TRUE(of_second >= 8 && of_second <= 10) << of_second;
  }
}

}  // namespace
}  // namespace stalltrace::analysis
