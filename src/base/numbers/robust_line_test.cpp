// SPDX-License-Identifier: Apache-2.0
#include "base/numbers/robust_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stalltrace {
namespace {

TEST(RobustLine, AFewPointsFarOffChangeNothing) {
  std::vector<LinePoint> points;
  for (int i = 0; i < 20; ++i) {
    points.push_back({static_cast<double>(i), 3.0 + 2.0 * i + (i % 5 == 0 ? 1000.0 : 0.0)});
  }
  const double rate = median_rate(points);
  EXPECT_DOUBLE_EQ(rate, 2);
  const AboutLine about = about_line(points, rate);
  EXPECT_DOUBLE_EQ(about.middle, 3);
  EXPECT_DOUBLE_EQ(about.distances[5], 1000);
  EXPECT_DOUBLE_EQ(about.distances[6], 0);
}

TEST(RobustLine, TheOrderOfThePointsDoesNotMatter) {
  EXPECT_DOUBLE_EQ(median_rate(std::vector<LinePoint>{{2, 8}, {0, 4}, {1, 6}}), 2);
}

TEST(RobustLine, PointsAtOneTimeHaveNoRate) {
  EXPECT_EQ(median_rate(std::vector<LinePoint>{{1, 5}, {1, 7}}), 0);
  EXPECT_EQ(median_rate({}), 0);
  EXPECT_THAT(about_line({}, 1).distances, testing::IsEmpty());
}

}  // namespace
}  // namespace stalltrace
