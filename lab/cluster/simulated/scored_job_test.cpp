// SPDX-License-Identifier: Apache-2.0
// What the analysis would report is made up here: the rules of scoring meet a job whose truth is known exactly.
#include "lab/cluster/simulated/scored_job.h"

#include <gtest/gtest.h>

#include "lab/simulation/shapes.h"

namespace stalltrace::lab {
namespace {

simulation::JobOptions job_with(std::vector<simulation::Fault> faults) {
  simulation::JobOptions options;
  options.steps = 24;
  options.faults = std::move(faults);
  return options;
}
/// Half a second a step: it costs the job seconds.
simulation::Fault late_rank() { return {.kind = simulation::FaultKind::kLateRank, .rank = 5, .ms = 500, .from = 12}; }

/// One finding for the whole recording.
Explain reports(Cause cause, int rank) {
  return [=](EventSource&) -> Result<Report> {
    Finding finding{.cause = cause, .severity = Severity::kHigh, .confidence = 0.9};
    finding.culprit = Culprit{.node = "node1", .rank = rank, .pid = 1};
    finding.window = {0, INT64_MAX / 2};
    Report report;
    report.findings.push_back(finding);
    return report;
  };
}
Result<Report> reports_nothing(EventSource&) { return Report{}; }

/// By no gate: whatever a fault costs is worth a finding.
Result<ScoredJob> scored(int64_t number, const simulation::JobOptions& options, const Explain& explain) {
  return score_simulated(number, options, explain, {});
}

TEST(ScoredJob, IsScoredAgainstItsTruth) {
  const auto right = scored(3, job_with({late_rank()}), reports(Cause::kLateRank, 5));
  ASSERT_TRUE(right) << right.error().what;
  EXPECT_EQ(right->result.score.verdict, DrawVerdict::kRight);
  EXPECT_EQ(right->result.draw.number, 3);
  EXPECT_EQ(right->result.draw.kind, DrawKind::kLoud);
  EXPECT_EQ(right->result.draw.setting, "late_rank 500 ms");
  EXPECT_EQ(right->result.draw.workload, "simulated:ddp");
  EXPECT_EQ(right->report.findings.size(), 1U);
  const auto wrong = scored(0, job_with({late_rank()}), reports(Cause::kLateRank, 4));
  EXPECT_EQ(wrong->result.score.verdict, DrawVerdict::kWrong);
  EXPECT_TRUE(wrong->result.score.blames_innocent);
  EXPECT_EQ(scored(0, job_with({late_rank()}), reports_nothing)->result.score.verdict, DrawVerdict::kAbstained);
}

TEST(ScoredJob, TheTrueCostIsWhatTheSameJobTakesLonger) {
  const FaultScore fault = scored(0, job_with({late_rank()}), reports_nothing)->result.score.faults.at(0);
  EXPECT_GT(fault.cost_ms.value(), 1000);
  EXPECT_LT(fault.cost_ms.value(), 12 * 600);
  EXPECT_GT(fault.cost_share.value(), 0.1);
}

TEST(ScoredJob, AHealthyJobIsToGetNoFinding) {
  const auto silent = scored(0, job_with({}), reports_nothing);
  EXPECT_EQ(silent->result.score.verdict, DrawVerdict::kRight);
  EXPECT_EQ(silent->result.draw.kind, DrawKind::kHealthy);
  EXPECT_EQ(silent->result.draw.setting, "ddp");
  EXPECT_EQ(scored(0, job_with({}), reports(Cause::kUnknown, 1))->result.score.verdict, DrawVerdict::kWrong);
}

TEST(ScoredJob, AFaultAfterTheEndIsNoResult) {
  simulation::Fault never = late_rank();
  never.from = 1000;
  const auto result = scored(0, job_with({never}), reports_nothing);
  EXPECT_EQ(result->result.score.verdict, DrawVerdict::kJobFailed);
  EXPECT_FALSE(result->result.problem.empty());
}

TEST(SimulatedDraws, HalfAreHealthy) {
  EXPECT_TRUE(draw_simulated(7, 0, "")->faults.empty());
  EXPECT_EQ(draw_simulated(7, 1, "")->faults.size(), 1U);
  EXPECT_EQ(draw_simulated(7, 1, "")->seed, 8U);
}

TEST(SimulatedDraws, OnlyOneSort) {
  for (int64_t number = 0; number < 4; ++number) {
    EXPECT_TRUE(draw_simulated(7, number, "healthy")->faults.empty());
    EXPECT_EQ(draw_simulated(7, number, "packet_loss")->faults.at(0).kind, simulation::FaultKind::kPacketLoss);
    EXPECT_EQ(draw_simulated(7, number, "fsdp")->shape, "fsdp");
  }
  const auto none = draw_simulated(7, 0, "gremlins");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace stalltrace::lab
