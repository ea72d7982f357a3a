// SPDX-License-Identifier: Apache-2.0
// Lines through the ends of collectives on two hosts: found where there is one, refused where there is none.
#include "analysis/timeline/clock_offsets/common_ends.h"

#include <gtest/gtest.h>

#include <random>

#include "analysis/thresholds/clocks.h"
#include "analysis/timeline/clock_offsets/correction_line.h"
#include "base/clock.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kEndsBegin = int64_t{1'800'000'000} * kNsPerSecond;
constexpr int64_t kEndsLengthNs = 60 * kNsPerSecond;
constexpr int64_t kEndsAheadNs = 5 * kNsPerSecond;
constexpr TimeRange kEndsRange{kEndsBegin, kEndsBegin + kEndsLengthNs};

/// Ends of a minute, `scatter_ns` apart by chance, and far apart in each eighth instance.
CommonEnds ends_of(double ppm, int64_t scatter_ns, int64_t count = 512) {
  std::mt19937_64 random(7);
  CommonEnds ends;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t since_ns = i * kEndsLengthNs / count;
    const auto by_chance = static_cast<int64_t>(random() % static_cast<uint64_t>(2 * scatter_ns + 1)) - scatter_ns;
    const int64_t late_ns = i % 8 == 0 ? 40 * kNsPerMs : 0;
    ends.add(static_cast<size_t>(since_ns * static_cast<int64_t>(CommonEnds::kSlices) / kEndsLengthNs),
             {kEndsBegin + since_ns,
              kEndsAheadNs + static_cast<int64_t>(ppm * 1e-6 * static_cast<double>(since_ns)) + by_chance + late_ns});
  }
  return ends;
}

int64_t end_line_at(const CommonEnds::Line& line, int64_t time_ns) {
  return line.correction_ns + static_cast<int64_t>(line.rate * static_cast<double>(time_ns - line.at_ns));
}

TEST(CommonEnds, AreWithinAFewMicrosecondsOfTheTruth) {
  for (const double ppm : {0.0, 0.1, 20.0, -50.0}) {
    const auto line = ends_of(ppm, 30 * kNsPerUs).line();
    ASSERT_TRUE(line) << ppm;
    for (const int64_t since_ns : {int64_t{0}, kEndsLengthNs / 2, kEndsLengthNs}) {
      const int64_t truth_ns = kEndsAheadNs + static_cast<int64_t>(ppm * 1e-6 * static_cast<double>(since_ns));
      EXPECT_NEAR(static_cast<double>(end_line_at(*line, kEndsBegin + since_ns) - truth_ns), 0, 20.0 * kNsPerUs) << ppm;
    }
  }
}

TEST(CommonEnds, OfADriftThatTheyCannotShowHaveNoRate) { EXPECT_EQ(ends_of(0.1, 30 * kNsPerUs).line()->rate, 0); }

TEST(CommonEnds, ThatScatterShowNothing) {
  EXPECT_TRUE(ends_of(0, kEndsScatterNs).line());  // half of them are within half of that
  EXPECT_FALSE(ends_of(0, 4 * kEndsScatterNs).line());
}

TEST(CommonEnds, OfFewCollectivesShowNothing) {
  EXPECT_FALSE(ends_of(0, 1, kFewestEnds - 1).line());
  EXPECT_TRUE(ends_of(0, 1, kFewestEnds).line());
}

/// Rank 4's host always waits for the others': its bounds are loose on one side.
class LeaningFit : public testing::Test {
 protected:
  static CorrectionFit fit(int64_t low_ns, int64_t high_ns) {
    std::vector<CorrectionBounds> slices(CommonEnds::kSlices);
    for (size_t i = 0; i < slices.size(); ++i) {
      const int64_t at_ns = kEndsBegin + static_cast<int64_t>(i) * kEndsLengthNs / static_cast<int64_t>(slices.size());
      slices[i].at_least(kEndsAheadNs + low_ns, at_ns);
      slices[i].at_most(kEndsAheadNs + high_ns, at_ns);
    }
    return {slices, {}, kEndsRange};
  }
  static constexpr CommonEnds::Line kEnds{.at_ns = kEndsBegin, .correction_ns = kEndsAheadNs};
  static constexpr int64_t kMostNs = 10 * kNsPerMs;
};

TEST_F(LeaningFit, TakesTheEndsLineAndKeepsTheBoundsAsItsError) {
  const CorrectionFit fit = LeaningFit::fit(-kNsPerMs, 6 * kNsPerMs);
  EXPECT_EQ(fit.line().at(kEndsBegin), kEndsAheadNs + 2'500 * kNsPerUs);
  const int64_t before_ns = fit.line().error_ns;
  const CorrectionLine line = fit.leaning_to(kEnds, kEndsRange, kMostNs);
  EXPECT_EQ(line.at(kEndsBegin), kEndsAheadNs);
  EXPECT_EQ(line.at(kEndsRange.to_ns), kEndsAheadNs);
  EXPECT_GE(line.error_ns, 6 * kNsPerMs);
  EXPECT_GT(line.error_ns, before_ns);
}

TEST_F(LeaningFit, LeavesWhatTheBoundsRuleOut) {
  const CorrectionFit fit = LeaningFit::fit(kNsPerMs, 6 * kNsPerMs);
  const int64_t before_ns = fit.line().at(kEndsBegin);
  EXPECT_EQ(fit.leaning_to(kEnds, kEndsRange, kMostNs).at(kEndsBegin), before_ns);
}

/// Bounds that are tight in the middle only, where the line does not pass.
TEST_F(LeaningFit, LeavesWhatTheBoundsRuleOutInTheMiddle) {
  std::vector<CorrectionBounds> slices(CommonEnds::kSlices);
  for (size_t i = 0; i < slices.size(); ++i) {
    const int64_t at_ns = kEndsBegin + static_cast<int64_t>(i) * kEndsLengthNs / static_cast<int64_t>(slices.size());
    const int64_t apart_ns = i == slices.size() / 2 ? 100 * kNsPerUs : 5 * kNsPerMs;
    slices[i].at_least(kEndsAheadNs - apart_ns, at_ns);
    slices[i].at_most(kEndsAheadNs + apart_ns, at_ns);
  }
  const CorrectionFit fit(slices, {}, kEndsRange);
  CommonEnds::Line beside = kEnds;
  beside.correction_ns += 2'500 * kNsPerUs;
  EXPECT_EQ(fit.leaning_to(beside, kEndsRange, kMostNs).at(kEndsBegin), fit.line().at(kEndsBegin));
  EXPECT_EQ(fit.leaning_to(kEnds, kEndsRange, kMostNs).at(kEndsBegin), kEndsAheadNs);
}

TEST_F(LeaningFit, DoesNotMakeAHostIncomparable) {
  const CorrectionFit fit = LeaningFit::fit(-kNsPerMs, 15 * kNsPerMs);
  const int64_t before_ns = fit.line().at(kEndsBegin);
  ASSERT_LE(fit.line().error_ns, kMostNs);
  EXPECT_EQ(fit.leaning_to(kEnds, kEndsRange, kMostNs).at(kEndsBegin), before_ns);
}

}  // namespace
}  // namespace stalltrace::analysis
