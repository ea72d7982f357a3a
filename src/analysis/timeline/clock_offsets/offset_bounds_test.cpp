// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/clock_offsets/offset_bounds.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/clock.h"

namespace stalltrace::analysis {
namespace {

TEST(OffsetBounds, NoRankCompletesBeforeTheLastHasArrived) {
  OffsetBounds bounds(2, 0);
  bounds.add({{.last_arrival_ns = 100, .first_end_ns = 200}, {.last_arrival_ns = 1110, .first_end_ns = 1190}});
  EXPECT_EQ(bounds.bounds(1).low_ns, 100 - 1190);
  EXPECT_EQ(bounds.bounds(1).high_ns, 200 - 1110);
  bounds.add({{.last_arrival_ns = 300, .first_end_ns = 400}, {.last_arrival_ns = 1350, .first_end_ns = 1380}});
  EXPECT_EQ(bounds.bounds(1).low_ns, 300 - 1380);  // each instance can only narrow it
  EXPECT_EQ(bounds.bounds(1).high_ns, 400 - 1350);
}

TEST(OffsetBounds, WhatDidNotArriveOrEndBoundsNothing) {
  OffsetBounds bounds(2, 0);
  bounds.add({{.last_arrival_ns = 100, .first_end_ns = 200}, {}});
  EXPECT_FALSE(bounds.bounds(1).has_calls);
  bounds.add({{.last_arrival_ns = 100}, {.last_arrival_ns = 1110, .first_end_ns = 1190}});
  EXPECT_TRUE(bounds.bounds(1).has_calls);
  EXPECT_FALSE(bounds.bounds(1).known());
  EXPECT_EQ(bounds.bounds(1).low_ns, 100 - 1190);
}

/// The reference waits for a minute in the middle of the job: what that bounds holds when the other came.
TEST(OffsetBounds, ALongWaitOfTheReferenceContradictsNoDrift) {
  constexpr int64_t kSteps = 600;
  constexpr int64_t kWaitNs = 60 * kNsPerSecond;
  constexpr int64_t kTakesNs = 200 * kNsPerUs;
  for (const int64_t part : {20'000, -20'000}) {  // 50 ppm
    const auto second = [&](int64_t time_ns) { return time_ns + time_ns / part; };
    OffsetBounds bounds(2, 0, {0, (kSteps - 1) * kNsPerSecond + kWaitNs + kTakesNs + 1});
    for (int64_t i = 0; i < kSteps; ++i) {
      const int64_t came_ns = i * kNsPerSecond + (i > kSteps / 2 ? kWaitNs : 0);
      const int64_t last_ns = came_ns + (i == kSteps / 2 ? kWaitNs : 0);
      bounds.add({{.last_arrival_ns = came_ns, .first_end_ns = last_ns + kTakesNs},
                  {.last_arrival_ns = second(last_ns), .first_end_ns = second(last_ns + kTakesNs)}});
    }
    const CorrectionLine line = bounds.offset(1);
    EXPECT_TRUE(line.fits) << part;
    EXPECT_LT(line.error_ns, 250 * kNsPerUs) << part;
    for (int64_t i = 0; i < kSteps; ++i) {
      ASSERT_LE(std::abs(line.at(i * kNsPerSecond) + i * kNsPerSecond / part), line.error_ns) << i;
    }
  }
}

}  // namespace
}  // namespace stalltrace::analysis
