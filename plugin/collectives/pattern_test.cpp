// SPDX-License-Identifier: Apache-2.0
#include "plugin/collectives/pattern.h"

#include <gtest/gtest.h>

namespace stalltrace::collectives {
namespace {

TEST(Pattern, TheSumOverRanksIsThatOfTheirValues) {
  for (const uint64_t ranks : {1, 2, 3, 16, 17, 100}) {
    for (const uint64_t position : {0, 1, 15, 16, 1'000'003}) {
      float sum = 0;
      for (uint64_t rank = 0; rank < ranks; ++rank) {
        sum += value_of(rank, position);
      }
      EXPECT_EQ(sum_of(ranks, position), sum) << ranks << " ranks, position " << position;
    }
  }
}

TEST(Pattern, EachRankExpectsItsOwnPart) {
  const Call gather{.operation = Operation::kAllGather, .ranks = 3, .rank = 1, .count = 4};
  EXPECT_EQ(gather.results(), 12U);
  EXPECT_EQ(gather.expected(5), value_of(1, 1));
  const Call scatter{.operation = Operation::kReduceScatter, .ranks = 3, .rank = 2, .count = 4};
  EXPECT_EQ(scatter.results(), 4U);
  EXPECT_EQ(scatter.expected(1), sum_of(3, 9));
  const Call broadcast{.operation = Operation::kBroadcast, .ranks = 3, .rank = 2, .count = 4};
  EXPECT_EQ(broadcast.expected(3), value_of(0, 3));
  Call reduce{.operation = Operation::kReduce, .ranks = 3, .rank = 0, .count = 4};
  EXPECT_EQ(reduce.results(), 4U);
  EXPECT_EQ(reduce.expected(2), sum_of(3, 2));
  reduce.rank = 1;
  EXPECT_EQ(reduce.results(), 0U);
  const Call ring{.operation = Operation::kSendRecv, .ranks = 3, .rank = 0, .count = 4};
  EXPECT_EQ(ring.expected(1), value_of(2, 1));
}

TEST(Pattern, APartOfASizeIsNeverEmpty) {
  EXPECT_EQ(count_of_size(Operation::kAllReduce, 4096, 8), 1024U);
  EXPECT_EQ(count_of_size(Operation::kAllGather, 4096, 8), 128U);
  EXPECT_EQ(count_of_size(Operation::kReduceScatter, 8, 8), 1U);
}

TEST(Pattern, PositionsAndRanksDiffer) {
  EXPECT_NE(value_of(0, 0), value_of(1, 0));
  int same = 0;  // a part in the position of another one would be seen
  for (uint64_t position = 0; position < 1024; ++position) {
    same += sum_of(3, position) == sum_of(3, position + 1024) ? 1 : 0;
  }
  EXPECT_LT(same, 512);
}

}  // namespace
}  // namespace stalltrace::collectives
