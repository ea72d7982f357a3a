// SPDX-License-Identifier: Apache-2.0
// Healthy jobs of all shapes give no finding above `waiting`, however they are recorded; bench/accuracy does the same
// with more of them, and larger ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/small_job.h"
#include "analysis/thresholds/causes.h"
#include "lab/simulation/draw.h"
#include "lab/simulation/job.h"
#include "lab/simulation/shapes.h"
#include "model/memory_source.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

using simulation::FaultKind;

Report report_of_simulated(const simulation::JobOptions& options) {
  MemorySource source;
  simulation::Job(options).record_all(source);
  return small_job::report_of(source);
}

TEST(SimulatedJobs, HealthGivesNothing) {
  const simulation::DrawLimits limits{.fewest_ranks = 8, .most_ranks = 8, .fewest_steps = 24, .most_steps = 30};
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const simulation::JobOptions options = simulation::draw_healthy(seed, limits);
    for (const Finding& finding : report_of_simulated(options).findings) {
      EXPECT_EQ(finding.severity, Severity::kWaiting)
          << "seed " << seed << ", " << options.shape << ": " << finding.summary;
    }
  }
}

/// The same where recordings have all tables that an agent fills.
TEST(SimulatedJobs, HealthWithAllEvidenceGivesNothing) {
  const simulation::DrawLimits limits{.fewest_ranks = 8, .most_ranks = 8, .fewest_steps = 24, .most_steps = 30};
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    simulation::JobOptions options = simulation::draw_healthy(seed, limits);
    options.all_evidence = true;
    for (const Finding& finding : report_of_simulated(options).findings) {
      EXPECT_EQ(finding.severity, Severity::kWaiting)
          << "seed " << seed << ", " << options.shape << ": " << finding.summary;
    }
  }
}

/// Where the kernel sees no connection, the plugin's rows of both ends show which link held the data.
TEST(SimulatedJobs, TheLinkOfALossIsKnownByTheSteps) {
  for (const bool all : {false, true}) {
    simulation::JobOptions options{.nodes = 4, .ranks_per_node = 2, .steps = 30, .plugin = true, .tcp = false};
    options.faults = {{.kind = FaultKind::kPacketLoss, .rank = 2, .per_step = 1, .from = 10}};
    options.all_evidence = all;
    const Report report = report_of_simulated(options);
    ASSERT_EQ(report.findings.size(), 1U) << small_job::reported(report);
    const Finding& finding = report.findings[0];
    EXPECT_EQ(finding.cause, all ? Cause::kSlowLink : Cause::kUnknown);
    if (all) {
      EXPECT_EQ(finding.link->src_rank, 3);
      EXPECT_EQ(finding.link->dst_rank, 4);
    }
  }
}

/// The only finding of a small job with one fault. Ends are the plugin's; CPUs are ahead of their devices.
Finding finding_of(const simulation::Fault& fault) {
  simulation::JobOptions options{.nodes = 1, .ranks_per_node = 8, .steps = 40, .plugin = true};
  options.faults = {fault};
  const Report report = report_of_simulated(options);
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
  EXPECT_GE(finding.stall_ms, 0.9 * kCostMs);
  EXPECT_LE(finding.stall_ms, 2 * kCostMs) << "kernels wait beside what their devices compute";
  expect_golden_text("slow_device", finding);
}

/// A job on four nodes with InfiniBand, whose ports are recorded.
simulation::JobOptions fabric_job(const simulation::Fault& fault) {
  simulation::JobOptions options{
      .nodes = 4, .ranks_per_node = 2, .steps = 60, .plugin = true, .tcp = false, .ports = true};
  options.faults = {fault};
  return options;
}

TEST(SimulatedJobs, APortThatCountsErrorsIsNamed) {
  const Report report =
      report_of_simulated(fabric_job({.kind = FaultKind::kFabricErrors, .rank = 2, .factor = 30, .from = 30}));
  ASSERT_EQ(report.findings.size(), 1U) << small_job::reported(report);
  EXPECT_EQ(report.findings[0].cause, Cause::kFabricErrors);
  EXPECT_EQ(report.findings[0].culprit.value().node, simulation::Job::node_name(1));
}

TEST(SimulatedJobs, NoNodeIsToBlameForAFullFabric) {
  const Report report = report_of_simulated(fabric_job({.kind = FaultKind::kCongestion, .factor = 30, .from = 30}));
  ASSERT_EQ(report.findings.size(), 1U) << small_job::reported(report);
  EXPECT_EQ(report.findings[0].cause, Cause::kCongestion);
  EXPECT_FALSE(report.findings[0].culprit.has_value());
}

/// Both calls are made, and their kernels wait for each other's ranks. Where one synchronisation ends all calls of a
/// step, none of them has ended, and the order of the calls alone shows it.
TEST(SimulatedJobs, ARankThatCrossesTwoCommunicatorsIsNamed) {
  for (const bool plugin : {true, false}) {
    simulation::JobOptions options{.nodes = 2, .ranks_per_node = 4, .steps = 30, .plugin = plugin, .tcp = false};
    ASSERT_TRUE(simulation::apply_parallel("tp=2,pp=1,dp=4", options).has_value());
    options.faults = {{.kind = FaultKind::kMissingCollective, .rank = 5, .crosses = true, .from = 20}};
    const Report report = report_of_simulated(options);
    ASSERT_EQ(report.findings.size(), 1U) << small_job::reported(report);
    small_job::expect_culprit(report.findings[0], Cause::kMissingCollective, 5);
    if (!plugin) {
      EXPECT_LE(report.findings[0].confidence, kLaunchOrderConfidence);
      expect_golden_text("missing_collective by a changed order of launches", report.findings[0]);
    }
  }
}

TEST(SimulatedJobs, ADeviceThatIsFarBehindOnceIsASlowDevice) {
  simulation::JobOptions options{.nodes = 1, .ranks_per_node = 8, .steps = 40, .plugin = true};
  options.faults = {{.kind = FaultKind::kSlowDevice, .rank = 1, .ms = 150'000, .from = 10, .to = 11}};
  const Report report = report_of_simulated(options);
  SCOPED_TRACE(small_job::reported(report));
  ASSERT_FALSE(report.findings.empty());
  small_job::expect_culprit(report.findings[0], Cause::kSlowDevice, 1);
  EXPECT_NEAR(report.findings[0].stall_ms, 150'000, 15'000);
}

/// What the GPUs say of their kernels takes the queue out of a transfer, and nothing else.
TEST(SimulatedJobs, ASlowTransferIsFoundWhereCpusRunAhead) {
  simulation::JobOptions options{.nodes = 2, .ranks_per_node = 4, .steps = 24, .launch_ms = 0.2, .plugin = true};
  options.tcp = false;
  options.faults = {{.kind = FaultKind::kSlowLink, .rank = 5, .factor = 100, .from = 15, .to = 16}};
  const Report report = report_of_simulated(options);
  SCOPED_TRACE(small_job::reported(report));
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].cause, Cause::kUnknown);
  EXPECT_FALSE(report.findings[0].culprit.has_value());
  EXPECT_GT(report.findings[0].stall_ms, 3'000);
}

/// CPUs are far ahead: what they do bounds the clocks of two hosts loosely, what their devices do tightly.
TEST(SimulatedJobs, DevicesShowWhatTimeItIs) {
  simulation::JobOptions options{.nodes = 2, .ranks_per_node = 4, .steps = 40, .launch_ms = 0.2, .plugin = true};
  options.clock_error_ms = 40;
  options.faults = {{.kind = FaultKind::kLateRank, .rank = 5, .ms = 80, .from = 10}};
  const Report report = report_of_simulated(options);
  SCOPED_TRACE(small_job::reported(report));
  ASSERT_EQ(report.findings.size(), 1U);
  small_job::expect_culprit(report.findings[0], Cause::kLateRank, 5);
}

/// 5 s off and 50 ppm: what is found is what right clocks show.
TEST(SimulatedJobs, ClocksThatDriftChangeNothing) {
  simulation::JobOptions options{.nodes = 3, .ranks_per_node = 4, .steps = 60, .plugin = true};
  options.faults = {{.kind = FaultKind::kLateRank, .rank = 5, .ms = 80, .from = 10}};
  const Report right = report_of_simulated(options);
  options.clocks = {{0, {.ahead_s = -1, .drift_ppm = -10}},
                    {1, {.ahead_s = 5, .drift_ppm = 40}},
                    {2, {.ahead_s = -5, .drift_ppm = -50}}};
  MemorySource source;
  const simulation::Job job(options);
  job.record_all(source);
  const Result<ExplainResult> wrong = explain(source);
  ASSERT_TRUE(wrong.has_value());
  SCOPED_TRACE(small_job::reported(wrong->report));
  ASSERT_EQ(right.findings.size(), 1U);
  ASSERT_EQ(wrong->report.findings.size(), 1U);
  small_job::expect_culprit(wrong->report.findings[0], Cause::kLateRank, 5);
  EXPECT_NEAR(wrong->report.findings[0].stall_ms, right.findings[0].stall_ms, 0.1 * right.findings[0].stall_ms);
  const auto reference = std::ranges::find(wrong->clocks, std::optional<int64_t>(0), &NodeClock::error_ns);
  ASSERT_NE(reference, wrong->clocks.end());
  const simulation::SimulatedClock common = job.clock(static_cast<int>(reference->node_id) - 1);
  const int64_t first_ns = job.history().first_step_ns;
  ASSERT_EQ(wrong->clocks.size(), 3U);
  for (const NodeClock& clock : wrong->clocks) {
    ASSERT_TRUE(clock.error_ns.has_value());
    EXPECT_LT(*clock.error_ns, 10 * kNsPerMs);
    for (const int64_t time_ns : {first_ns, (first_ns + job.history().ended_ns) / 2, job.history().ended_ns}) {
      const int64_t own_ns = job.clock(static_cast<int>(clock.node_id) - 1).at(time_ns);
      const int64_t error_ns = own_ns + clock.shift_ns + clock.drift.correction_ns(own_ns) - common.at(time_ns);
      // The job ends after its last collective.
      EXPECT_LE(std::abs(error_ns), *clock.error_ns + 20 * kNsPerUs) << "node " << clock.node_id << " at " << time_ns;
    }
  }
}

/// After each pause the rank's device has nothing queued, and is behind for the rest of the step.
TEST(SimulatedJobs, AFewPausesOfARankAreNotKnownToBeAFault) {
  simulation::JobOptions options{.nodes = 1, .ranks_per_node = 8, .steps = 40, .plugin = true};
  options.pauses = {{.by = simulation::Pause::By::kLast, .every = 15, .seconds = 5, .computes = false}};
  const Report report = report_of_simulated(options);
  SCOPED_TRACE(small_job::reported(report));
  ASSERT_EQ(report.findings.size(), 1U);
  small_job::expect_culprit(report.findings[0], Cause::kLateRank, 7);
  EXPECT_EQ(report.findings[0].severity, Severity::kWaiting);
}

/// Nine steps of 0.1 s after a pause comes the next one.
TEST(SimulatedJobs, PausesBetweenShortStepsAreSeveral) {
  for (const Finding& finding : report_of_simulated(simulation::draw_healthy(20'010)).findings) {
    EXPECT_EQ(finding.severity, Severity::kWaiting) << finding.summary;
  }
}

TEST(SimulatedJobs, ARankThatEvaluatedWhenAnotherDiedIsNotAccused) {
  simulation::JobOptions options{.nodes = 1, .ranks_per_node = 8, .steps = 40, .launcher_s = 3};
  options.pauses = {{.by = simulation::Pause::By::kLast, .every = 20, .seconds = 8}};
  options.faults = {{.kind = FaultKind::kDeadRank, .rank = 2, .from = 20}};
  const Report report = report_of_simulated(options);
  SCOPED_TRACE(small_job::reported(report));
  EXPECT_TRUE(std::ranges::any_of(report.findings, [](const Finding& finding) {
    return finding.cause == Cause::kDeadRank && finding.severity != Severity::kWaiting;
  }));
  for (const Finding& finding : report.findings) {
    if (finding.severity != Severity::kWaiting) {
      small_job::expect_culprit(finding, Cause::kDeadRank, 2);
    }
  }
}

/// All ranks have called the first collective of a step; their devices will come to it in seconds.
TEST(SimulatedJobs, DevicesThatAreBusyDoNotHang) {
  simulation::JobOptions options{.nodes = 1, .ranks_per_node = 8, .steps = 12, .micro_batches = 8, .plugin = true};
  options.forward_ms = 400;
  options.backward_ms = 800;
  for (const double share : {0.5, 0.52, 0.54, 0.56, 0.58}) {
    options.cut_share = share;
    const Report report = report_of_simulated(options);
    EXPECT_TRUE(report.findings.empty()) << share << "\n" << small_job::reported(report);
  }
}

/// Findings above `waiting`.
std::vector<Finding> loud(const Report& report) {
  std::vector<Finding> findings = report.findings;
  std::erase_if(findings, [](const Finding& finding) { return finding.severity == Severity::kWaiting; });
  return findings;
}

/// Stages of a pipeline send to two neighbours: all that leaves the node has one end in common, whatever rank sends it.
TEST(SimulatedJobs, LossesOfSeveralRanksOfANodeAreTheNodes) {
  simulation::JobOptions options{.nodes = 4, .ranks_per_node = 4, .steps = 32, .plugin = true};
  ASSERT_TRUE(simulation::apply_shape("pipeline", options));
  options.faults = {{.kind = FaultKind::kPacketLoss, .rank = 6, .per_step = 1, .from = 10}};
  const Report report = report_of_simulated(options);
  SCOPED_TRACE(small_job::reported(report));
  ASSERT_EQ(report.findings.size(), 1U);
  const Finding& finding = report.findings[0];
  EXPECT_EQ(finding.cause, Cause::kPacketLoss);
  ASSERT_TRUE(finding.culprit.has_value());
  EXPECT_EQ(finding.culprit->node, "node1");
  EXPECT_FALSE(finding.culprit->rank.has_value());
  expect_golden_text("packet_loss: a node with several ranks", finding);
}

/// In rings all that leaves one node enters the same other node: which of the two it is, is not known.
TEST(SimulatedJobs, LossesBetweenTwoNodesAreOneFindingWithoutACulprit) {
  simulation::JobOptions options{.nodes = 4, .ranks_per_node = 4, .steps = 40, .plugin = true};
  ASSERT_TRUE(simulation::apply_shape("moe", options));
  options.faults = {{.kind = FaultKind::kPacketLoss, .rank = 4, .per_step = 1, .from = 10}};
  const Report report = report_of_simulated(options);
  SCOPED_TRACE(small_job::reported(report));
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].cause, Cause::kPacketLoss);
  EXPECT_FALSE(report.findings[0].culprit.has_value());
  ASSERT_TRUE(report.findings[0].link.has_value());
  EXPECT_EQ(*report.findings[0].link->src_rank / options.ranks_per_node, 1);
  EXPECT_EQ(small_job::count_of_kind(report.findings[0], "connection"), 1) << "the other links between these nodes";
}

/// Its calls have no ends, as those of the ranks that wait in the step's synchronisation: it has launched fewer of
/// them.
TEST(SimulatedJobs, WithoutThePluginARankThatDoesNotGoOnIsMissing) {
  for (const char* shape : {"ddp", "fsdp", "moe", "tp-pp-dp"}) {
    simulation::JobOptions options{.nodes = 2, .ranks_per_node = 4, .steps = 24};
    ASSERT_TRUE(simulation::apply_shape(shape, options));
    options.faults = {{.kind = FaultKind::kMissingCollective, .rank = 5, .from = 10}};
    const Report report = report_of_simulated(options);
    SCOPED_TRACE(std::string(shape) + "\n" + small_job::reported(report));
    ASSERT_EQ(report.findings.size(), 1U);
    small_job::expect_culprit(report.findings[0], Cause::kMissingCollective, 5);
    EXPECT_LE(report.findings[0].confidence, kStoppedInStepConfidence);
  }
}

/// Each stage waits for the next one; which rank is to blame is not known where calls have no ends of their own.
TEST(SimulatedJobs, RanksThatWaitForEachOtherAreNotAccused) {
  simulation::JobOptions options{.nodes = 4, .ranks_per_node = 2, .steps = 24};
  ASSERT_TRUE(simulation::apply_shape("pipeline", options));
  options.faults = {{.kind = FaultKind::kMissingCollective, .rank = 2, .from = 10}};
  const Report report = report_of_simulated(options);
  EXPECT_FALSE(report.findings.empty());
  for (const Finding& finding : report.findings) {
    EXPECT_TRUE(!finding.culprit || finding.culprit->rank == 2) << finding.summary;
  }
}

/// Clocks may be off by more than a rank is late: the step before ended for all ranks at the same moment.
TEST(SimulatedJobs, WithoutThePluginALateRankMakesItsStepsLonger) {
  simulation::JobOptions options{.nodes = 2, .ranks_per_node = 4, .steps = 60, .clock_error_ms = 40};
  options.launch_ms = 1;
  const simulation::Fault late{.kind = FaultKind::kLateRank, .rank = 5, .ms = 80, .computes = false, .from = 20};
  options.faults = {late};
  const Report report = report_of_simulated(options);
  SCOPED_TRACE(small_job::reported(report));
  ASSERT_EQ(report.findings.size(), 1U);
  small_job::expect_culprit(report.findings[0], Cause::kLateRank, 5);
  // The words between the rank and the cost: it lost the time before its first call.
  const std::string& summary = report.findings[0].summary;
  const size_t what = summary.find(')') + 2;
  golden::expect_text(summary.substr(what, summary.find(':') - what));
}

/// Its CPU is always the last one, ahead of its device all the same; what makes some steps longer is another's device.
TEST(SimulatedJobs, WithoutThePluginARankThatIsAlwaysLastIsNotAccused) {
  simulation::JobOptions options{.nodes = 1, .ranks_per_node = 8, .steps = 60, .slow_launchers = {2}};
  options.launch_ms = 3;
  options.faults = {{.kind = FaultKind::kSlowDevice, .rank = 5, .ms = 80, .from = 20}};
  const Report report = report_of_simulated(options);
  for (const Finding& finding : loud(report)) {
    EXPECT_FALSE(finding.culprit.has_value()) << finding.summary;
  }
}

/// Another rank's pauses are long enough to be findings by themselves: beside them, 80 ms a step are no hiccup.
TEST(SimulatedJobs, ALateRankIsFoundBesidePausesOfAnother) {
  simulation::JobOptions options{.nodes = 1, .ranks_per_node = 8, .steps = 40, .plugin = true};
  options.pauses = {{.by = simulation::Pause::By::kFirst, .every = 15, .seconds = 5}};
  options.faults = {{.kind = FaultKind::kLateRank, .rank = 5, .ms = 80, .from = 10}};
  const std::vector<Finding> findings = loud(report_of_simulated(options));
  ASSERT_EQ(findings.size(), 1U);
  small_job::expect_culprit(findings[0], Cause::kLateRank, 5);
}

/// In the step in which tracing ends, calls have no ends yet: CPUs are ahead of their devices by different times.
TEST(SimulatedJobs, CallsWhoseStepHasNotEndedAreNotJudged) {
  const simulation::JobOptions options = simulation::draw_healthy(12'986);
  EXPECT_GT(options.cut_share, 0);
  EXPECT_TRUE(loud(report_of_simulated(options)).empty());
}

/// All ranks are inside, no data move for half a second, and the recording ends: their devices may be busy.
TEST(SimulatedJobs, APhaseThatIsCutIsNoHang) {
  const simulation::JobOptions options = simulation::draw_healthy(31'386);
  EXPECT_GT(options.cut_share, 0);
  const Report report = report_of_simulated(options);
  EXPECT_TRUE(loud(report).empty()) << small_job::reported(report);
  for (const Finding& finding : report.findings) {
    EXPECT_EQ(finding.summary.find("hung"), std::string::npos) << finding.summary;
  }
}

/// The launcher ended all after the death of a rank that was not recorded, while rank 0 evaluated.
TEST(SimulatedJobs, RanksThatWereAllEndedFromOutsideProveNoHang) {
  const simulation::JobOptions options = simulation::draw_faulty(12'648, std::nullopt);
  ASSERT_EQ(options.faults[0].kind, FaultKind::kDeadRank);
  for (const Finding& finding : loud(report_of_simulated(options))) {
    EXPECT_TRUE(!finding.culprit || finding.culprit->rank == options.faults[0].rank) << finding.summary;
  }
}

}  // namespace
}  // namespace stalltrace::analysis
