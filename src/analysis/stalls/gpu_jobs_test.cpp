// SPDX-License-Identifier: Apache-2.0
// Jobs on GPUs without the profiler plugin: the ends of calls are one synchronisation's, and CPUs run ahead of their
// devices. Health gives nothing; who really makes the others wait is named.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/testing/gpu_job.h"
#include "analysis/testing/small_job.h"

namespace stalltrace::analysis {
namespace {

using Shape = GpuJobOptions::Shape;
using small_job::reported;

Report report_of_gpus(GpuJobOptions options) {
  GpuJob job(std::move(options));
  return small_job::report_of(job.source());
}

GpuJobOptions of_shape(Shape shape) {
  GpuJobOptions options{.shape = shape};
  if (shape == Shape::kShardedData) {
    options.units = 32;
    options.steps = 24;
  }
  return options;
}

class GpuJobs : public testing::TestWithParam<Shape> {};

TEST_P(GpuJobs, HealthGivesNothing) {
  for (const double launch_ms : {10.0, 8.0, 2.0}) {  // in step with the device, a little ahead, far ahead
    for (uint32_t seed = 1; seed <= 4; ++seed) {
      GpuJobOptions options = of_shape(GetParam());
      options.launch_ms = launch_ms;
      options.seed = seed;
      const Report report = report_of_gpus(options);
      EXPECT_TRUE(report.healthy) << launch_ms << " ms, seed " << seed << "\n" << reported(report);
      EXPECT_EQ(report.ranks, options.ranks);
    }
  }
}

/// Of a rank that is late in every step nothing is known: the report says that, and what would show it.
TEST_P(GpuJobs, ANoteSaysWhatASynchronisationHides) {
  GpuJobOptions options = of_shape(GetParam());
  options.late_rank = 37;
  options.late_every = 1;
  const Report report = report_of_gpus(options);
  EXPECT_TRUE(report.healthy) << reported(report);
  const int calls_a_step = GetParam() == Shape::kDataParallel ? options.units : 3 * options.units;
  const std::string hidden =
      fmt::format("{} of {} collectives ended with a synchronisation that ended later ones too",
                  options.ranks * options.steps * (calls_a_step - 1), options.ranks * options.steps * calls_a_step);
  EXPECT_EQ(std::ranges::count_if(report.notes, [&](const std::string& note) { return note.starts_with(hidden); }), 1)
      << fmt::format("{}", fmt::join(report.notes, "\n"));
}

/// Five steps are too few for a baseline.
GpuJobOptions short_job(Shape shape) {
  GpuJobOptions options = of_shape(shape);
  options.steps = 5;
  return options;
}

TEST_P(GpuJobs, ALongPauseOfAShortJobIsFound) {
  GpuJobOptions options = short_job(GetParam());
  options.late_rank = 37;
  options.late_ms = 20'000;
  const Report report = report_of_gpus(options);
  SCOPED_TRACE(reported(report));
  ASSERT_EQ(report.findings.size(), 1U);
  small_job::expect_culprit(report.findings[0], Cause::kLateRank, 37);
  EXPECT_NEAR(report.findings[0].stall_ms, 20'000, 1'000);
}

TEST_P(GpuJobs, ALongTransferOfAShortJobIsFound) {
  GpuJobOptions options = short_job(GetParam());
  options.loss_ms = 20'000;
  const Report report = report_of_gpus(options);
  SCOPED_TRACE(reported(report));
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].cause, Cause::kUnknown);
  EXPECT_FALSE(report.findings[0].culprit.has_value());
  EXPECT_NEAR(report.findings[0].stall_ms, 20'000, 1'500);
}

/// A few steps of most of a minute, most of which the CPUs are ahead; some are 20 s behind the others.
TEST_P(GpuJobs, AFewLongStepsAreNoStalls) {
  GpuJobOptions options = short_job(GetParam());
  for (const int steps : {1, 2, 5}) {
    options.steps = steps;
    options.forward_ms = 50'000;
    options.compute_ms = 50'000.0 / options.units;
    options.launch_ms = 20'000.0 / options.units;
    options.slow_launchers = {5, 40};
    const Report report = report_of_gpus(options);
    EXPECT_TRUE(report.healthy) << steps << " steps\n" << reported(report);
  }
}

TEST_P(GpuJobs, AShorterPauseOfAShortJobIsNotJudged) {
  GpuJobOptions options = short_job(GetParam());
  options.late_rank = 37;
  options.late_ms = 5'000;
  const Report report = report_of_gpus(options);
  EXPECT_TRUE(report.healthy) << reported(report);
}

TEST_P(GpuJobs, CpusThatRunAheadByTurnsAreNotLate) {
  GpuJobOptions options = of_shape(GetParam());
  options.launch_ms = 4;
  options.noise_ms = 2;
  options.slow_launchers = {5, 40};  // a hundred milliseconds behind the others, and still ahead of their devices
  const Report report = report_of_gpus(options);
  EXPECT_TRUE(report.healthy) << reported(report);
}

TEST_P(GpuJobs, ARankWhoseDataComeLateNowAndThenIsNamed) {
  for (const int rank : {0, 37}) {
    for (const double launch_ms : {10.0, 4.0}) {
      GpuJobOptions options = of_shape(GetParam());
      options.launch_ms = launch_ms;
      options.late_rank = rank;
      options.late_every = GetParam() == Shape::kDataParallel ? 4 : 2;  // steps of the other take twice as long
      const Report report = report_of_gpus(options);
      SCOPED_TRACE(fmt::format("rank {}, {} ms\n{}", rank, launch_ms, reported(report)));
      ASSERT_EQ(report.findings.size(), 1U);
      small_job::expect_culprit(report.findings[0], Cause::kLateRank, rank);
      const int late_steps = options.steps / options.late_every;
      EXPECT_EQ(report.findings[0].collectives_affected, late_steps) << "one instance of each batch";
      EXPECT_NEAR(report.findings[0].stall_ms, 80.0 * late_steps, 0.15 * 80 * late_steps);
    }
  }
}

TEST_P(GpuJobs, APauseThatTheDeviceDoesNotNoticeCostsNothing) {
  GpuJobOptions options = of_shape(GetParam());
  options.launch_ms = 2;
  options.late_rank = 37;
  options.late_unit = options.units / 2;
  options.late_ms = 50;
  options.late_every = 2;
  const Report report = report_of_gpus(options);
  EXPECT_TRUE(report.healthy) << reported(report);
}

TEST_P(GpuJobs, ATransferThatIsSlowInsideABatchCostsWhatTheStepTookLonger) {
  GpuJobOptions options = of_shape(GetParam());
  options.loss_ms = 400;
  const Report report = report_of_gpus(options);
  SCOPED_TRACE(reported(report));
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].cause, Cause::kUnknown);
  EXPECT_FALSE(report.findings[0].culprit.has_value());
  const int slow_steps = options.steps / options.loss_every;
  EXPECT_LE(report.findings[0].stall_ms, 1.05 * 400 * slow_steps);
  EXPECT_GE(report.findings[0].stall_ms, 0.4 * 400 * slow_steps) << "some of it is hidden behind the backward pass";
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuJobs, testing::Values(Shape::kDataParallel, Shape::kShardedData));

}  // namespace
}  // namespace stalltrace::analysis
