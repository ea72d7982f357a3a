// SPDX-License-Identifier: Apache-2.0
// Lines between bounds, of clocks whose truth is known: the error that is given has to contain it.
#include "analysis/timeline/clock_offsets/correction_line.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "base/clock.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kBegin = int64_t{1'800'000'000} * kNsPerSecond;
constexpr int64_t kAheadNs = 5 * kNsPerSecond;
constexpr size_t kSlices = 64;

/// A minute of collectives, four a second, whose bounds are 100 us from the truth, and further by chance.
struct Observed {
  std::function<int64_t(int64_t since_ns)> truth;
  uint64_t seed = 1;
  int64_t jitter_ns = 300 * kNsPerUs;

  static constexpr int64_t kCalls = 240;
  static constexpr int64_t kEveryNs = kNsPerSecond / 4;
  static constexpr TimeRange kRange{kBegin, kBegin + (kCalls - 1) * kEveryNs + 1};

  [[nodiscard]] std::vector<CorrectionBounds> bounds() const {
    std::mt19937_64 random(seed);
    std::vector<CorrectionBounds> slices(kSlices);
    for (int64_t i = 0; i < kCalls; ++i) {
      const int64_t since_ns = i * kEveryNs;
      const auto further_ns = [&] {
        const double draw = static_cast<double>(random() % 1'000'000 + 1) / 1e6;
        return 100 * kNsPerUs + static_cast<int64_t>(-std::log(draw) * static_cast<double>(jitter_ns));
      };
      CorrectionBounds& slice = slices[static_cast<size_t>(i) * kSlices / kCalls];
      const bool last = i > kCalls / 2;
      slice.at_least(truth(since_ns) - further_ns(), kBegin + since_ns, last);
      slice.at_most(truth(since_ns) + further_ns(), kBegin + since_ns, last);
    }
    return slices;
  }
  /// The largest distance from the truth, at any time of the minute.
  [[nodiscard]] int64_t worst_ns(const CorrectionLine& line) const {
    int64_t worst = 0;
    for (int64_t i = 0; i < kCalls; ++i) {
      worst = std::max(worst, std::abs(line.at(kBegin + i * kEveryNs) - truth(i * kEveryNs)));
    }
    return worst;
  }
};

std::function<int64_t(int64_t)> drifting(double ppm) {
  return
      [ppm](int64_t since_ns) { return kAheadNs + static_cast<int64_t>(ppm * 1e-6 * static_cast<double>(since_ns)); };
}

TEST(CorrectionFit, TheErrorContainsTheTruthHoweverTheClockDrifts) {
  for (const double ppm : {0.0, 3.0, -20.0, 50.0, -50.0, 90.0}) {
    for (uint64_t seed = 1; seed <= 50; ++seed) {
      const Observed seen{.truth = drifting(ppm), .seed = seed};
      const CorrectionFit fit(seen.bounds(), {}, Observed::kRange);
      EXPECT_TRUE(fit.line().fits);
      EXPECT_LE(seen.worst_ns(fit.line()), fit.line().error_ns) << ppm << " ppm, seed " << seed;
      EXPECT_LT(fit.line().error_ns, 400 * kNsPerUs) << ppm << " ppm, seed " << seed;
      for (int64_t i = 0; i < Observed::kCalls; ++i) {
        const int64_t since_ns = i * Observed::kEveryNs;
        const CorrectionRange range = fit.at(kBegin + since_ns);
        EXPECT_LE(range.low_ns, seen.truth(since_ns) + 1);
        EXPECT_GE(range.high_ns, seen.truth(since_ns) - 1);
      }
    }
  }
}

TEST(CorrectionFit, DriftIsFoundToWithinAFewPpm) {
  for (const double ppm : {50.0, -50.0}) {
    const Observed seen{.truth = drifting(ppm)};
    const CorrectionLine line = CorrectionFit(seen.bounds(), {}, Observed::kRange).line();
    EXPECT_NEAR(line.rate * 1e6, ppm, 5);
    EXPECT_LT(seen.worst_ns(line), 200 * kNsPerUs);
  }
}

/// As without any thought of drift: the middle of the highest lower and the lowest upper bound.
TEST(CorrectionFit, WithoutDriftOneOffsetIsTheMiddleOfAllBounds) {
  const Observed seen{.truth = drifting(0)};
  const std::vector<CorrectionBounds> bounds = seen.bounds();
  CorrectionRange all;
  for (const CorrectionBounds& one : bounds) {
    all = {std::max(all.low_ns, one.low_ns), std::min(all.high_ns, one.high_ns)};
  }
  const CorrectionLine line = CorrectionFit(bounds, {}, Observed::kRange).line();
  EXPECT_EQ(line.rate, 0);
  EXPECT_EQ(line.correction_ns, all.low_ns + (all.high_ns - all.low_ns) / 2);
  EXPECT_GE(line.error_ns, (all.high_ns - all.low_ns) / 2);
}

TEST(CorrectionFit, EqualBoundsAtAllTimesGiveTheirHalfAsError) {
  std::vector<CorrectionBounds> bounds(kSlices);
  for (size_t i = 0; i < kSlices; ++i) {
    const int64_t at_ns = kBegin + static_cast<int64_t>(i) * kNsPerSecond;
    bounds[i].at_least(kAheadNs - kNsPerMs, at_ns);
    bounds[i].at_most(kAheadNs + kNsPerMs, at_ns);
  }
  const TimeRange range{kBegin, kBegin + (kSlices - 1) * kNsPerSecond + 1};
  const CorrectionLine line = CorrectionFit(bounds, {}, range).line();
  EXPECT_EQ(line.correction_ns, kAheadNs);
  EXPECT_EQ(line.error_ns, kNsPerMs);
  EXPECT_EQ(line.rate, 0);
}

/// Of a clock that was compared once, at the beginning, it is not known how it drifts.
TEST(CorrectionFit, TheErrorGrowsWithTheTimeWithoutBounds) {
  std::vector<CorrectionBounds> bounds(1);
  bounds[0].at_least(-kNsPerUs, kBegin);
  bounds[0].at_most(kNsPerUs, kBegin);
  const CorrectionLine line = CorrectionFit(bounds, {}, {kBegin, kBegin + 10 * kNsPerSecond + 1}).line();
  EXPECT_EQ(line.correction_ns, 0);
  EXPECT_NEAR(static_cast<double>(line.error_ns), kNsPerUs + 1000 * kNsPerUs, 10) << "100 ppm of 10 s";
}

TEST(CorrectionFit, WhatAlwaysHoldsBoundsBothEnds) {
  const CorrectionRange always{kAheadNs - 700, kAheadNs + 900};
  const CorrectionLine line = CorrectionFit({}, always, Observed::kRange).line();
  EXPECT_EQ(line.correction_ns, kAheadNs + 100);
  EXPECT_EQ(line.error_ns, 800);
  EXPECT_EQ(CorrectionFit({}, always, {0, 0}).line().error_ns, 800);
}

/// NTP corrects a clock in the middle of the minute.
TEST(CorrectionFit, WhereNoLineFitsTheErrorReachesToAllBounds) {
  const Observed seen{.truth = [](int64_t since_ns) {
    constexpr int64_t kHalf = 30 * kNsPerSecond;
    return kAheadNs + (since_ns < kHalf ? 0 : (since_ns - kHalf) / 2000);
  }};
  const CorrectionLine line = CorrectionFit(seen.bounds(), {}, Observed::kRange).line();
  EXPECT_FALSE(line.fits);
  EXPECT_LE(seen.worst_ns(line), line.error_ns);
  EXPECT_LT(line.error_ns, 15 * kNsPerMs);
}

}  // namespace
}  // namespace stalltrace::analysis
