// SPDX-License-Identifier: Apache-2.0
// Lines between bounds, of clocks whose truth is known: the error that is given has to contain it.
#include "analysis/timeline/clock_offsets/correction_line.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "analysis/thresholds/clocks.h"
#include "base/clock.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kBegin = int64_t{1'800'000'000} * kNsPerSecond;
constexpr int64_t kTruthAheadNs = 5 * kNsPerSecond;
constexpr size_t kSlices = kClockSlices;

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
  return [ppm](int64_t since_ns) {
    return kTruthAheadNs + static_cast<int64_t>(ppm * 1e-6 * static_cast<double>(since_ns));
  };
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
    bounds[i].at_least(kTruthAheadNs - kNsPerMs, at_ns);
    bounds[i].at_most(kTruthAheadNs + kNsPerMs, at_ns);
  }
  const TimeRange range{kBegin, kBegin + (kSlices - 1) * kNsPerSecond + 1};
  const CorrectionLine line = CorrectionFit(bounds, {}, range).line();
  EXPECT_EQ(line.correction_ns, kTruthAheadNs);
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
  const CorrectionRange always{kTruthAheadNs - 700, kTruthAheadNs + 900};
  const CorrectionLine line = CorrectionFit({}, always, Observed::kRange).line();
  EXPECT_EQ(line.correction_ns, kTruthAheadNs + 100);
  EXPECT_EQ(line.error_ns, 800);
  EXPECT_EQ(CorrectionFit({}, always, {0, 0}).line().error_ns, 800);
}

/// Right clocks, whose bounds are 1 ms from the truth; at last they are so on one side only.
TEST(CorrectionFit, BoundsThatAreLooseOnOneSideShowNoDrift) {
  struct Job {
    const char* name;
    int64_t steps;      // one a second
    int64_t late_from;  // the first step in which a rank on the other host is late
    int64_t late_ns;
    int64_t last_ns;   // how much later than its step a rank on the reference's host comes to the last instance
    int64_t error_ns;  // at most
  };
  const Job jobs[] = {
      {"ranks come on time", 200, 200, 0, 0, kNsPerMs},
      {"a rank is late from the start on", 200, 5, 80 * kNsPerMs, 0, 2 * kNsPerMs},
      {"a rank is late in the second half", 3600, 1800, 80 * kNsPerMs, 0, 4 * kNsPerMs},
      {"a rank comes 600 s late at last", 60, 60, 0, 600 * kNsPerSecond, 62 * kNsPerMs},
  };
  for (const Job& job : jobs) {
    const int64_t end_ns = kBegin + (job.steps - 1) * kNsPerSecond + job.last_ns;
    std::vector<CorrectionBounds> bounds(kSlices);
    const auto slice = [&](int64_t at_ns) -> CorrectionBounds& {
      const double share = static_cast<double>(at_ns - kBegin) / static_cast<double>(end_ns - kBegin + 1);
      return bounds[static_cast<size_t>(share * static_cast<double>(kSlices))];
    };
    for (int64_t i = 0; i < job.steps; ++i) {
      const bool last = i >= job.steps / 2;
      const int64_t at_ns = i + 1 == job.steps ? end_ns : kBegin + i * kNsPerSecond;
      const int64_t waits_ns = (i >= job.late_from ? job.late_ns : 0) + (i + 1 == job.steps ? job.last_ns : 0);
      slice(at_ns).at_least(kTruthAheadNs - kNsPerMs, at_ns, last);
      slice(at_ns).at_most(kTruthAheadNs + kNsPerMs + waits_ns, at_ns, last);
    }
    const CorrectionLine line = CorrectionFit(bounds, {}, {kBegin, end_ns + 1}).line();
    EXPECT_TRUE(line.fits) << job.name;
    EXPECT_EQ(line.rate, 0) << job.name;
    EXPECT_EQ(line.correction_ns, kTruthAheadNs) << job.name;
    EXPECT_LE(line.error_ns, job.error_ns) << job.name;
  }
}

/// Collectives whose bounds are near the truth, and further by chance and on the sides on which a rank is late.
struct Steps {
  int64_t count = 3600;
  int64_t every_ns = kNsPerSecond;
  std::function<int64_t(int64_t since_ns)> truth;
  std::function<int64_t(int64_t step)> low_wait_ns = [](int64_t) { return 0; };
  std::function<int64_t(int64_t step)> high_wait_ns = [](int64_t) { return 0; };
  int64_t near_ns = kNsPerMs;
  int64_t jitter_ns = 0;
  uint64_t seed = 1;

  [[nodiscard]] CorrectionFit fit() const {
    std::mt19937_64 random(seed);
    std::vector<CorrectionBounds> bounds(kSlices);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t right = truth(i * every_ns);
      const int64_t at_ns = kBegin + i * every_ns;
      const auto away_ns = [&] {
        const double draw = static_cast<double>(random() % 1'000'000 + 1) / 1e6;
        return near_ns + static_cast<int64_t>(-std::log(draw) * static_cast<double>(jitter_ns));
      };
      CorrectionBounds& slice = bounds[static_cast<size_t>(i) * kSlices / static_cast<size_t>(count)];
      const bool last = i >= count / 2;
      slice.at_least(right - away_ns() - low_wait_ns(i), at_ns, last);
      slice.at_most(right + away_ns() + high_wait_ns(i), at_ns, last);
    }
    return {bounds, {}, {kBegin, kBegin + (count - 1) * every_ns + 1}};
  }
  [[nodiscard]] bool contains_truth(const CorrectionFit& fit) const {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t right = truth(i * every_ns);
      const int64_t at_ns = kBegin + i * every_ns;
      const CorrectionRange range = fit.at(at_ns);
      if (std::abs(fit.line().at(at_ns) - right) > fit.line().error_ns + 1 || range.low_ns > right + 1 ||
          range.high_ns < right - 1) {
        return false;
      }
    }
    return true;
  }
};

std::function<int64_t(int64_t)> late_from(int64_t first_step) {
  return [first_step](int64_t step) { return step >= first_step ? 80 * kNsPerMs : 0; };
}

/// It may be the only fault of the job: a clock that is not known better than 10 ms hides it.
TEST(CorrectionFit, ARankThatIsLateInAlmostAllStepsLeavesTheRateKnown) {
  for (const int64_t count : {200, 600, 3600}) {
    for (const double ppm : {0.0, 50.0, -50.0}) {
      for (const bool late_there : {false, true}) {
        Steps steps{.count = count, .truth = drifting(ppm)};
        (late_there ? steps.low_wait_ns : steps.high_wait_ns) = late_from(5);
        const CorrectionFit fit = steps.fit();
        EXPECT_TRUE(fit.line().fits);
        EXPECT_LT(fit.line().error_ns, 3 * kNsPerMs) << count << " steps, " << ppm << " ppm, " << late_there;
        EXPECT_NEAR(fit.line().rate * 1e6, ppm, ppm == 0 ? 0 : 2) << count << " steps, " << late_there;
        EXPECT_TRUE(steps.contains_truth(fit)) << count << " steps, " << ppm << " ppm, " << late_there;
      }
    }
  }
}

/// A rank of a third host is late: the bounds of both sides are loose.
TEST(CorrectionFit, BoundsThatAreLooseByAsMuchAllTheTimeShowTheRate) {
  for (const int64_t count : {200, 600, 3600}) {  // in a short time less steep lines fit as well
    for (const double ppm : {0.0, 50.0, 150.0, 300.0, -200.0}) {
      const Steps steps{
          .count = count, .truth = drifting(ppm), .low_wait_ns = late_from(5), .high_wait_ns = late_from(5)};
      const CorrectionFit fit = steps.fit();
      EXPECT_LT(fit.line().error_ns, 3 * kNsPerMs) << count << " steps, " << ppm << " ppm";
      EXPECT_TRUE(steps.contains_truth(fit)) << count << " steps, " << ppm << " ppm";
    }
  }
}

TEST(CorrectionFit, LatenessThatChangesIsNotTakenForDrift) {
  const auto none = [](int64_t) { return 0; };
  const auto grows = [](int64_t step) { return 80 * kNsPerMs * step / 3600; };
  struct Waits {
    const char* name;
    std::function<int64_t(int64_t step)> low_ns;
    std::function<int64_t(int64_t step)> high_ns;
  };
  const Waits table[] = {
      {"the other host's rank is late by more and more", grows, none},
      {"the reference's is", none, grows},
      {"a third host's is", grows, grows},
      {"the other host's is late from the half on", late_from(1800), none},
      {"the reference's is late from the half on", none, late_from(1800)},
  };
  for (const Waits& waits : table) {
    for (const double ppm : {0.0, 50.0, -50.0}) {
      const Steps steps{.truth = drifting(ppm), .low_wait_ns = waits.low_ns, .high_wait_ns = waits.high_ns};
      EXPECT_TRUE(steps.contains_truth(steps.fit())) << waits.name << ", " << ppm << " ppm";
    }
  }
}

/// The side of the growing lateness has the smaller scatter.
TEST(CorrectionFit, ASteadySideThatGoesAnotherWayThanAScatteredOneIsNotFollowed) {
  const Steps steps{.count = 64,
                    .every_ns = 60 * kNsPerSecond,
                    .truth = drifting(0),
                    .low_wait_ns = [](int64_t step) { return late_from(5)(step) + 15 * kNsPerMs * step / 64; },
                    .high_wait_ns = [](int64_t step) { return 20 * kNsPerMs * (step * 37 % 64) / 64; }};
  EXPECT_TRUE(steps.contains_truth(steps.fit()));
}

/// NTP keeps the clock within 1 ms, and its rate within 3.5 ppm.
TEST(CorrectionFit, AClockMayWanderFromTheLineOfItsBounds) {
  for (const int64_t near_ns : {100 * kNsPerUs, kNsPerMs}) {
    for (const double phase : {0.0, 1.6, 3.1, 4.7}) {
      const Steps steps{
          .truth =
              [phase](int64_t since_ns) {
                return static_cast<int64_t>(1e6 * std::sin(static_cast<double>(since_ns) / 286e9 + phase));
              },
          .low_wait_ns = late_from(5),
          .near_ns = near_ns};
      const CorrectionFit fit = steps.fit();
      EXPECT_LT(fit.line().error_ns, 8 * kNsPerMs) << near_ns << " ns, phase " << phase;
      EXPECT_TRUE(steps.contains_truth(fit)) << near_ns << " ns, phase " << phase;
    }
  }
}

TEST(CorrectionFit, TheErrorContainsTheTruthOfJobsWithJitterAndWaits) {
  for (const double ppm : {0.0, 50.0, -50.0, -100.0}) {
    for (uint64_t seed = 1; seed <= 50; ++seed) {
      std::mt19937_64 random(seed);
      const int64_t late_ns = static_cast<int64_t>(random() % 200) * kNsPerMs;
      const auto waits = [&random, late_ns](int64_t step) {
        const int64_t once_ns = random() % 8 == 0 ? static_cast<int64_t>(random() % 5'000) * kNsPerMs : 0;
        return (step >= 5 ? late_ns : 0) + once_ns;
      };
      Steps steps{.count = static_cast<int64_t>(60 + random() % 400), .truth = drifting(ppm)};
      steps.near_ns = static_cast<int64_t>(50 + random() % 2'000) * kNsPerUs;
      steps.jitter_ns = static_cast<int64_t>(random() % 5'000) * kNsPerUs;
      steps.seed = seed;
      (random() % 2 == 0 ? steps.low_wait_ns : steps.high_wait_ns) = waits;
      EXPECT_TRUE(steps.contains_truth(steps.fit())) << ppm << " ppm, seed " << seed;
    }
  }
}

/// A clock that NTP keeps within 1 ms has no one rate over hours. A rank that is late for minutes makes no error: the
/// bounds before and after it say more.
TEST(CorrectionFit, WhereNoLineFitsLooseBoundsCountAsFarAsTheirNeighboursLetThem) {
  constexpr int64_t kSteps = 3600;
  const auto truth = [](int64_t second) {
    return kTruthAheadNs + static_cast<int64_t>(1e6 * std::sin(static_cast<double>(second) / 286));
  };
  for (const bool one_side : {false, true}) {
    std::vector<CorrectionBounds> bounds(kSlices);
    for (int64_t i = 0; i < kSteps; ++i) {
      const int64_t at_ns = kBegin + i * kNsPerSecond;
      const bool late = i >= 1800 && i < 1920;
      CorrectionBounds& slice = bounds[static_cast<size_t>(i) * kSlices / kSteps];
      slice.at_least(truth(i) - 100 * kNsPerUs, at_ns);
      if (!one_side || !late) {
        slice.at_most(truth(i) + 100 * kNsPerUs + (late ? 80 * kNsPerMs : 0), at_ns);
      }
    }
    const CorrectionLine line = CorrectionFit(bounds, {}, {kBegin, kBegin + (kSteps - 1) * kNsPerSecond + 1}).line();
    EXPECT_FALSE(line.fits);
    EXPECT_LT(line.error_ns, 20 * kNsPerMs) << one_side;
    for (int64_t i = 0; i < kSteps; ++i) {
      ASSERT_LE(std::abs(line.at(kBegin + i * kNsPerSecond) - truth(i)), line.error_ns) << i;
    }
  }
}

/// NTP corrects a clock in the middle of the minute.
TEST(CorrectionFit, WhereNoLineFitsTheErrorReachesToTheBounds) {
  const Observed seen{.truth = [](int64_t since_ns) {
    constexpr int64_t kHalf = 30 * kNsPerSecond;
    return kTruthAheadNs + (since_ns < kHalf ? 0 : (since_ns - kHalf) / 2000);
  }};
  const CorrectionLine line = CorrectionFit(seen.bounds(), {}, Observed::kRange).line();
  EXPECT_FALSE(line.fits);
  EXPECT_LE(seen.worst_ns(line), line.error_ns);
  EXPECT_LT(line.error_ns, 15 * kNsPerMs);
}

}  // namespace
}  // namespace stalltrace::analysis
