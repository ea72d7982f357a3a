// SPDX-License-Identifier: Apache-2.0
// Healthy jobs of all shapes give no finding above `waiting`, however they are recorded; bench/accuracy does the same
// with more of them, and larger ones.
#include <gtest/gtest.h>

#include "analysis/testing/small_job.h"
#include "lab/simulation/draw.h"
#include "lab/simulation/job.h"
#include "model/memory_source.h"

namespace stalltrace::analysis {
namespace {

using simulation::FaultKind;

Report report_of(const simulation::JobOptions& options) {
  MemorySource source;
  simulation::Job(options).record_all(source);
  return small_job::report_of(source);
}

TEST(SimulatedJobs, HealthGivesNothing) {
  const simulation::DrawLimits limits{.fewest_ranks = 8, .most_ranks = 8, .fewest_steps = 24, .most_steps = 30};
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const simulation::JobOptions options = simulation::draw_healthy(seed, limits);
    for (const Finding& finding : report_of(options).findings) {
      EXPECT_EQ(finding.severity, Severity::kWaiting)
          << "seed " << seed << ", " << options.shape << ": " << finding.summary;
    }
  }
}

/// A rank that needs 80 ms more in each step, on its CPU or on its device; ends are the plugin's.
TEST(SimulatedJobs, ALateRankAndASlowDeviceAreTold) {
  for (const auto& [kind, cause] :
       {std::pair(FaultKind::kLateRank, Cause::kLateRank), std::pair(FaultKind::kSlowDevice, Cause::kSlowDevice)}) {
    simulation::JobOptions options{.nodes = 1, .ranks_per_node = 8, .steps = 40, .plugin = true};
    options.faults = {{.kind = kind, .rank = 5, .ms = 80, .from = 10}};
    const Report report = report_of(options);
    SCOPED_TRACE(small_job::reported(report));
    ASSERT_EQ(report.findings.size(), 1U);
    small_job::expect_culprit(report.findings[0], cause, 5);
    EXPECT_NEAR(report.findings[0].stall_ms, 30 * 80, 0.2 * 30 * 80);
  }
}

}  // namespace
}  // namespace stalltrace::analysis
