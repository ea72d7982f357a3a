// SPDX-License-Identifier: Apache-2.0
// Who gets the room where a table has more rows than fit.
#include "analysis/evidence/reads/row_budget.h"

#include <gtest/gtest.h>

#include <algorithm>

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
        kept[i] += budget.room(1, static_cast<int64_t>(i) * 60 * kNsPerSecond + n) ? 1 : 0;
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
      kept[static_cast<size_t>(n / 200)] += budget.room(1, n * 5 * kNsPerMs) ? 1 : 0;
    }
    return {};
  };
  ASSERT_TRUE(read_fairly(budget, read, [&] { kept.assign(10, 0); }));
  for (const int64_t of_second : kept) {
    EXPECT_TRUE(of_second >= 8 && of_second <= 10) << of_second;
  }
}

TEST(RowBudget, ABusyNodeDoesNotTakeTheRoomOfThoseThatAreReadLater) {
  RowBudget budget(IntervalSet({{0, kNsPerSecond}}), 90);
  std::vector<int64_t> kept(3);
  const auto read = [&]() -> Status {
    for (NodeId node = 0; node < 3; ++node) {
      for (int64_t n = 0; n < (node == 1 ? 10 : 1000); ++n) {
        kept[node] += budget.room(node, n) ? 1 : 0;
      }
    }
    return {};
  };
  ASSERT_TRUE(read_fairly(budget, read, [&] { kept.assign(3, 0); }));
  EXPECT_EQ(kept, (std::vector<int64_t>{40, 10, 40}));
  EXPECT_EQ(budget.dropped(), 1920);
}

/// A long time of many nodes: what is counted is bounded, and all nodes and times have their room all the same.
TEST(RowBudget, CountsAreBounded) {
  constexpr NodeId kNodes = 10;
  constexpr int64_t kSeconds = 1000;
  RowBudget budget(IntervalSet({{0, kSeconds * kNsPerSecond}}), 5'000, 256);
  std::vector<int64_t> of_node(kNodes);
  std::vector<int64_t> of_quarter(4);
  size_t most_counts = 0;
  const auto read = [&]() -> Status {
    for (int64_t second = 0; second < kSeconds; ++second) {
      for (NodeId node = 0; node < kNodes; ++node) {
        const int64_t kept = budget.room(node, second * kNsPerSecond) ? 1 : 0;
        of_node[node] += kept;
        of_quarter[static_cast<size_t>(second / 250)] += kept;
        most_counts = std::max(most_counts, budget.counts());
      }
    }
    return {};
  };
  ASSERT_TRUE(read_fairly(budget, read, [&] {
    of_node.assign(kNodes, 0);
    of_quarter.assign(4, 0);
  }));
  EXPECT_LE(most_counts, 256U);
  for (const int64_t kept : of_node) {
    EXPECT_NEAR(static_cast<double>(kept), 500, 100);
  }
  for (const int64_t kept : of_quarter) {
    EXPECT_NEAR(static_cast<double>(kept), 1250, 300);
  }
}

/// Of thousands of nodes and an hour not even one row of each node's second fits: some seconds are kept then.
TEST(RowBudget, ManyNodesInALongTimeKeepSomeSeconds) {
  constexpr int64_t kNodes = 50;
  constexpr int64_t kSeconds = 600;
  constexpr int64_t kEach = 4;
  for (const int64_t capacity : {12'000, 60'000}) {
    RowBudget budget(IntervalSet({{0, kSeconds * kNsPerSecond}}), capacity);
    std::vector<int64_t> kept(kSeconds);
    const auto read = [&]() -> Status {
      for (NodeId node = 0; node < kNodes; ++node) {
        for (int64_t second = 0; second < kSeconds; ++second) {
          for (int64_t n = 0; n < kEach; ++n) {
            kept[static_cast<size_t>(second)] += budget.room(node, second * kNsPerSecond + n) ? 1 : 0;
          }
        }
      }
      return {};
    };
    ASSERT_TRUE(read_fairly(budget, read, [&] { kept.assign(kSeconds, 0); }));
    int64_t all = 0;
    for (const int64_t of_second : kept) {
      EXPECT_TRUE(of_second == 0 || of_second == kNodes * kEach) << of_second;
      all += of_second;
    }
    EXPECT_GE(all, capacity / 4);
    EXPECT_LE(all, capacity);
    EXPECT_EQ(budget.dropped(), kNodes * kSeconds * kEach - all);
  }
  RowBudget budget(IntervalSet({{0, kNsPerSecond}}), 10);  // one second has more than fits
  int64_t kept = 0;
  const auto read = [&]() -> Status {
    for (NodeId node = 0; node < 100; ++node) {
      kept += budget.room(node, 0) ? 1 : 0;
    }
    return {};
  };
  ASSERT_TRUE(read_fairly(budget, read, [&] { kept = 0; }));
  EXPECT_EQ(kept, 10);
}

}  // namespace
}  // namespace stalltrace::analysis
