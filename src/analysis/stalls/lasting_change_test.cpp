// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/lasting_change.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "analysis/stalls/baseline.h"

namespace stalltrace::analysis {
namespace {

/// `count` values around `middle`, which scatter by a tenth.
void add(std::vector<uint32_t>& values, int count, uint32_t middle) {
  for (int i = 0; i < count; ++i) {
    values.push_back(middle + middle / 10 * static_cast<uint32_t>(i % 3));
  }
}

TEST(LastingChange, IsFoundWhereItIs) {
  std::vector<uint32_t> values;
  add(values, 10, 1000);
  add(values, 20, 2000);
  const std::optional<size_t> before = shorter_before(values);
  ASSERT_TRUE(before);
  EXPECT_GE(*before, 10U);
  EXPECT_LE(*before, 11U) << "the first one after it may be among the shortest of those";
}

TEST(LastingChange, ThereIsNoneInOneLevelNorWhereDurationsBecomeShorter) {
  std::vector<uint32_t> values;
  EXPECT_EQ(shorter_before(values), std::nullopt);
  add(values, 40, 1000);
  EXPECT_EQ(shorter_before(values), std::nullopt);
  add(values, 40, 500);
  EXPECT_EQ(shorter_before(values), std::nullopt);
  const std::vector<uint32_t> equal(100, 7);
  EXPECT_EQ(shorter_before(equal), std::nullopt);
}

TEST(LastingChange, ChanceMakesOneRarely) {
  std::mt19937 random(7);
  std::uniform_int_distribution<uint32_t> any(1000, 2000);
  int found = 0;
  for (int i = 0; i < 1000; ++i) {
    std::vector<uint32_t> values(60);
    std::ranges::generate(values, [&] { return any(random); });
    found += shorter_before(values) ? 1 : 0;
  }
  EXPECT_LT(found, 50);
}

TEST(Baseline, IsThatBeforeALastingChangeHoweverFewThoseAre) {
  BaselineSample sample;
  for (int i = 0; i < 60; ++i) {
    sample.add((i < 9 ? 3 : 11) * kNsPerMs);
  }
  const Baseline baseline = Baseline::of(sample);
  EXPECT_EQ(baseline.usual_ns, 3 * kNsPerMs);
  EXPECT_LT(baseline.limit_ns, 11 * kNsPerMs) << "each one takes longer: the floor of single stalls does not hold";
  EXPECT_EQ(baseline.count, 60);
}

TEST(Baseline, TheWarmUpHidesNoLastingChange) {
  BaselineSample sample;
  for (int i = 0; i < 30; ++i) {
    sample.add((i < 2 ? 900 : i < 10 ? 100 : 200) * kNsPerMs);
  }
  EXPECT_EQ(Baseline::of(sample).usual_ns, 100 * kNsPerMs);
}

TEST(Baseline, ADriftIsNoChange) {
  BaselineSample sample;
  for (int i = 0; i < 400; ++i) {
    sample.add((100 + i) * kNsPerMs);
  }
  EXPECT_EQ(Baseline::of(sample).usual_ns, 199 * kNsPerMs);
}

TEST(Baseline, ASmallChangeIsNone) {
  BaselineSample sample;
  for (int i = 0; i < 60; ++i) {
    sample.add((i < 9 ? 100 : 107) * kNsPerMs);
  }
  EXPECT_EQ(Baseline::of(sample).usual_ns, 107 * kNsPerMs);
}

}  // namespace
}  // namespace stalltrace::analysis
