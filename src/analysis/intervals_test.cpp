// SPDX-License-Identifier: Apache-2.0
#include "analysis/intervals.h"

#include <gtest/gtest.h>

namespace stalltrace::analysis {
namespace {

TEST(IntervalSet, JoinsWhatTouchesOrOverlapsAndDropsTheEmpty) {
  const IntervalSet set({{30, 40}, {0, 10}, {5, 20}, {20, 25}, {50, 50}, {60, 55}});
  EXPECT_EQ(set.intervals(), (std::vector<Interval>{{0, 25}, {30, 40}}));
  EXPECT_EQ(set.total_ns(), 35);
}

TEST(IntervalSet, AnswersForAWindow) {
  const IntervalSet set({{0, 10}, {20, 30}, {40, 50}});
  EXPECT_EQ(set.covered_ns({5, 45}), 20);
  EXPECT_EQ(set.covered_ns({10, 20}), 0);
  EXPECT_EQ(set.covered_ns({30, 30}), 0);
  std::vector<Interval> parts;
  set.clip({25, 100}, parts);
  EXPECT_EQ(parts, (std::vector<Interval>{{25, 30}, {40, 50}}));
}

TEST(IntervalSet, AnEmptySetCoversNothing) {
  const IntervalSet set;
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set.total_ns(), 0);
  EXPECT_EQ(set.covered_ns({0, 100}), 0);
}

}  // namespace
}  // namespace stalltrace::analysis
