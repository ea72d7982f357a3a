// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/baseline.h"

#include <gtest/gtest.h>

#include "analysis/thresholds/stalls.h"

namespace stalltrace::analysis {
namespace {

TEST(Baseline, IsUnknownWithFewInstances) {
  BaselineSample sample;
  for (int i = 0; i < kBaselineInstances - 1; ++i) {
    sample.add(kNsPerMs);
  }
  EXPECT_FALSE(Baseline::of(sample).known);
  EXPECT_EQ(Baseline::of(sample).limit_ns, kNoBaselineFloorNs);
  sample.add(kNsPerMs);
  EXPECT_TRUE(Baseline::of(sample).known);
}

TEST(Baseline, IsNotPulledUpByAFaultThatLastsTwoThirds) {
  BaselineSample sample;
  for (int i = 0; i < 300; ++i) {
    sample.add((i < 100 ? 10 : 200) * kNsPerMs);
  }
  const Baseline baseline = Baseline::of(sample);
  EXPECT_EQ(baseline.usual_ns, 10 * kNsPerMs);
  EXPECT_LT(baseline.limit_ns, 50 * kNsPerMs);
}

TEST(Baseline, AllowsForTheUsualScatter) {
  BaselineSample sample;
  for (int i = 0; i < 1000; ++i) {
    sample.add((50 + i % 40) * kNsPerMs);
  }
  EXPECT_GT(Baseline::of(sample).limit_ns, 80 * kNsPerMs);
}

TEST(Baseline, TheSpreadIsOfTheSameSampleAndIgnoresOneOutlier) {
  BaselineSample sample;
  EXPECT_EQ(sample.spread().median_ns, 0);
  for (const int64_t ms : {30, 10, 1000, 20, 40}) {
    sample.add(ms * kNsPerMs);
  }
  EXPECT_EQ(sample.spread().median_ns, 30 * kNsPerMs);
  EXPECT_EQ(sample.spread().deviation_ns, 10 * kNsPerMs);
}

TEST(Baseline, ABoundedSampleOfManyInstancesSpansAllTime) {
  BaselineSample sample;
  for (int i = 0; i < 1'000'000; ++i) {
    sample.add(i * kNsPerUs);
  }
  EXPECT_EQ(sample.count(), 1'000'000);
  EXPECT_NEAR(static_cast<double>(Baseline::of(sample).usual_ns), 250e6, 10e6);
}

}  // namespace
}  // namespace stalltrace::analysis
