// SPDX-License-Identifier: Apache-2.0
#include "base/numbers/median.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace stalltrace {
namespace {

TEST(Median, OfTwoInTheMiddleItIsOneOfThem) {
  const std::vector<int64_t> odd{9, 1, 5};
  const std::vector<int64_t> even{9, 1, 7, 5};
  EXPECT_EQ(median(odd), 5);
  EXPECT_EQ(lower_median(odd), 5);
  EXPECT_EQ(median(even), 7);
  EXPECT_EQ(lower_median(even), 5);
  EXPECT_EQ(even, (std::vector<int64_t>{9, 1, 7, 5})) << "the values keep their order";
  EXPECT_DOUBLE_EQ(median(std::vector<double>{2.5, 0.5}), 2.5);
}

TEST(Median, OrTheMeanOfTheTwo) {
  EXPECT_DOUBLE_EQ(mean_median({9, 1, 7, 5}), 6);
  EXPECT_DOUBLE_EQ(mean_median({9, 1, 5}), 5);
  EXPECT_DOUBLE_EQ(mean_median({3}), 3);
  EXPECT_DOUBLE_EQ(mean_median({}), 0);
}

TEST(Median, OfFewOrNone) {
  EXPECT_EQ(median(std::vector<int64_t>{}), 0);
  EXPECT_EQ(lower_median(std::vector<int64_t>{}), 0);
  EXPECT_EQ(median(std::vector<int64_t>{3}), 3);
  EXPECT_EQ(lower_median(std::vector<int64_t>{3}), 3);
}

}  // namespace
}  // namespace stalltrace
