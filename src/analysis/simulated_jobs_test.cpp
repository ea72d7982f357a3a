// SPDX-License-Identifier: Apache-2.0
// Healthy jobs of all shapes give no finding above `waiting`, however they are recorded; bench/accuracy does the same
// with more of them, and larger ones.
#include <gtest/gtest.h>

#include "analysis/testing/golden_text.h"
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

/// The only finding of a small job with one fault. Ends are the plugin's; CPUs are ahead of their devices.
Finding finding_of(const simulation::Fault& fault) {
  simulation::JobOptions options{.nodes = 1, .ranks_per_node = 8, .steps = 40, .plugin = true};
  options.faults = {fault};
  const Report report = report_of(options);
  EXPECT_EQ(report.findings.size(), 1U) << small_job::reported(report);
  return report.findings.empty() ? Finding{} : report.findings[0];
}

constexpr double kCostMs = 30 * 80;

TEST(SimulatedJobs, ACpuThatIsLateInEachStepIsALateRank) {
  const Finding finding = finding_of({.kind = FaultKind::kLateRank, .rank = 5, .ms = 80, .from = 10});
  small_job::expect_culprit(finding, Cause::kLateRank, 5);
  EXPECT_NEAR(finding.stall_ms, kCostMs, 0.2 * kCostMs);
}

/// It costs a few milliseconds in each collective of a step.
TEST(SimulatedJobs, ADeviceThatNeedsLongerInEachStepIsASlowDevice) {
  const Finding finding = finding_of({.kind = FaultKind::kSlowDevice, .rank = 5, .ms = 80, .from = 10});
  small_job::expect_culprit(finding, Cause::kSlowDevice, 5);
  EXPECT_NEAR(finding.stall_ms, kCostMs, 0.35 * kCostMs) << "each device scatters";
  expect_golden_text("slow_device", finding);
}

TEST(SimulatedJobs, ADeviceThatIsFarBehindOnceIsASlowDevice) {
  const Finding finding = finding_of({.kind = FaultKind::kSlowDevice, .rank = 1, .ms = 150'000, .from = 10, .to = 11});
  small_job::expect_culprit(finding, Cause::kSlowDevice, 1);
  EXPECT_NEAR(finding.stall_ms, 150'000, 5'000);
}

/// What the GPUs say of their kernels takes the queue out of a transfer, and nothing else.
TEST(SimulatedJobs, ASlowTransferIsFoundWhereCpusRunAhead) {
  simulation::JobOptions options{.nodes = 2, .ranks_per_node = 4, .steps = 24, .launch_ms = 0.2, .plugin = true};
  options.tcp = false;
  options.faults = {{.kind = FaultKind::kSlowLink, .rank = 5, .factor = 100, .from = 15, .to = 16}};
  const Report report = report_of(options);
  SCOPED_TRACE(small_job::reported(report));
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].cause, Cause::kUnknown);
  EXPECT_FALSE(report.findings[0].culprit.has_value());
  EXPECT_GT(report.findings[0].stall_ms, 3'000);
}

}  // namespace
}  // namespace stalltrace::analysis
