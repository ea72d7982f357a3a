// SPDX-License-Identifier: Apache-2.0
// Every fault at every location, with several seeds, gives its cause and location; a healthy job gives no finding.
#include "analysis/explain.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/testing/small_job.h"
#include "analysis/testing/synthetic_cluster.h"
#include "analysis/thresholds/steps.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

constexpr int kRingRanks = 4;

Report report_of_ring(JobOptions options) {
  SyntheticJob job(std::move(options));
  Result<ExplainResult> result = explain(job.source());
  EXPECT_TRUE(result.has_value());
  return result ? result->report : Report{};
}

std::string findings_of(const Report& report) {
  std::string text;
  for (const Finding& finding : report.findings) {
    text += fmt::format("{}: {} [{:.0f} ms]\n", to_text(finding.cause), finding.summary, finding.stall_ms);
    for (const Evidence& evidence : finding.evidence) {
      text += fmt::format("    {}\n", evidence.text);
    }
  }
  for (const std::string& note : report.notes) {
    text += fmt::format("note: {}\n", note);
  }
  return text;
}

JobOptions with_fault(FaultKind kind, int rank, uint32_t seed) {
  JobOptions options{.seed = seed};
  options.faults = {{.kind = kind, .rank = rank}};
  return options;
}

void expect_fault(const Report& report, FaultKind kind, int rank) {
  SCOPED_TRACE(findings_of(report));
  ASSERT_EQ(report.findings.size(), 1U);
  const Finding& finding = report.findings[0];
  EXPECT_FALSE(report.healthy);
  EXPECT_GT(finding.stall_ms, 150);
  EXPECT_GE(finding.confidence, 0.5);
  EXPECT_FALSE(finding.summary.empty());
  EXPECT_FALSE(finding.remedy.empty());
  if (kind == FaultKind::kPacketLoss) {
    EXPECT_EQ(finding.cause, Cause::kPacketLoss);
    EXPECT_FALSE(finding.culprit.has_value());
    ASSERT_TRUE(finding.link.has_value());
    EXPECT_EQ(finding.link->src_rank, rank);
    EXPECT_EQ(finding.link->dst_rank, (rank + 1) % kRingRanks);
    return;
  }
  constexpr Cause kCauses[] = {Cause::kPacketLoss, Cause::kLateRank, Cause::kCpuContention, Cause::kProcessStopped};
  EXPECT_EQ(finding.cause, kCauses[static_cast<int>(kind)]);
  ASSERT_TRUE(finding.culprit.has_value());
  EXPECT_EQ(finding.culprit->rank, rank);
  EXPECT_EQ(finding.culprit->node, SyntheticJob::node_of_rank(rank));
  EXPECT_EQ(finding.culprit->pid, SyntheticJob::pid_of(rank));
  EXPECT_FALSE(finding.link.has_value());
}

template <typename T>
void copy_rows(const Result<std::vector<T>>& rows, MemorySource& to) {
  ASSERT_TRUE(rows.has_value());
  for (const T& row : *rows) {
    to.accept(row);
  }
}

void copy(MemorySource& from, MemorySource& to) {
  copy_rows(from.nodes(), to);
  copy_rows(from.processes(), to);
  copy_rows(from.communicators(), to);
  copy_rows(from.connections(), to);
  const auto accept = [&](const auto& row) { to.accept(row); };
  ASSERT_TRUE(from.collectives({}, accept) && from.tcp_events({}, accept) && from.tcp_samples({}, accept) &&
              from.wait_spans({}, accept));
}

class EveryFault : public testing::TestWithParam<std::tuple<FaultKind, int>> {};

TEST_P(EveryFault, HasItsCauseAndLocationOverSeeds) {
  const auto [kind, rank] = GetParam();
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    expect_fault(report_of_ring(with_fault(kind, rank, seed)), kind, rank);
  }
}

TEST_P(EveryFault, IsFoundWhenItLastsTheWholeRecording) {
  const auto [kind, rank] = GetParam();
  JobOptions options = with_fault(kind, rank, 3);
  options.faults[0].from_s = 0;
  expect_fault(report_of_ring(options), kind, rank);
}

TEST_P(EveryFault, IsFoundOnCommunicatorsMadeBeforeTracing) {
  const auto [kind, rank] = GetParam();
  JobOptions options = with_fault(kind, rank, 4);
  options.known_communicator = false;
  const Report report = report_of_ring(options);
  expect_fault(report, kind, rank);
  for (const Finding& finding : report.findings) {
    EXPECT_EQ(finding.comm_id_hash, 0U);
  }
}

TEST_P(EveryFault, IsFoundWithNodesWhoseUtcDiffers) {
  const auto [kind, rank] = GetParam();
  JobOptions options = with_fault(kind, rank, 5);
  options.clock_offsets_ns = {0, 3 * kNsPerSecond, -700 * kNsPerMs, 40 * kNsPerMs};
  expect_fault(report_of_ring(options), kind, rank);
}

TEST_P(EveryFault, IsFoundWithoutNoiseToo) {
  const auto [kind, rank] = GetParam();
  JobOptions options = with_fault(kind, rank, 6);
  options.noise = false;
  expect_fault(report_of_ring(options), kind, rank);
}

INSTANTIATE_TEST_SUITE_P(Faults, EveryFault,
                         testing::Combine(testing::Values(FaultKind::kPacketLoss, FaultKind::kLateRank,
                                                          FaultKind::kCpuContention, FaultKind::kProcessStopped),
                                          testing::Range(0, kRingRanks)));

TEST(Explain, AHealthyJobGivesNothing) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    const Report report = report_of_ring({.seed = seed});
    EXPECT_TRUE(report.healthy) << seed << "\n" << findings_of(report);
    EXPECT_EQ(report.ranks, kRingRanks);
    EXPECT_EQ(report.nodes, kRingRanks);
    EXPECT_EQ(report.collectives, 200 * 4 * kRingRanks);
  }
}

TEST(Explain, AnEmptyRecordingIsHealthyWithANote) {
  MemorySource source;
  const Result<ExplainResult> report = explain(source);
  ASSERT_TRUE(report.has_value());
  EXPECT_TRUE(report->report.healthy);
  ASSERT_EQ(report->report.notes.size(), 1U);
  golden::expect_text(report->report.notes[0]);
  EXPECT_EQ(report->report.range, (TimeRange{0, 0}));
}

TEST(Explain, TwoFaultsGiveTwoFindings) {
  JobOptions options{.steps = 400, .seed = 2};
  options.faults = {{.kind = FaultKind::kPacketLoss, .rank = 1, .to_s = 12},
                    {.kind = FaultKind::kProcessStopped, .rank = 3, .from_s = 15}};
  const Report report = report_of_ring(options);
  SCOPED_TRACE(findings_of(report));
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_EQ(report.findings[0].cause, Cause::kPacketLoss);
  EXPECT_EQ(report.findings[1].cause, Cause::kProcessStopped);
  EXPECT_EQ(report.findings[1].culprit->rank, 3);
}

TEST(Explain, TwoFaultsAtTheSameTimeGiveTwoFindings) {
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    JobOptions options{.seed = seed};
    options.faults = {{.kind = FaultKind::kPacketLoss, .rank = 1}, {.kind = FaultKind::kLateRank, .rank = 3}};
    const Report report = report_of_ring(options);
    SCOPED_TRACE(findings_of(report));
    ASSERT_EQ(report.findings.size(), 2U) << seed;
    for (const Finding& finding : report.findings) {
      if (finding.cause == Cause::kPacketLoss) {
        EXPECT_EQ(finding.link->src_rank, 1);
      } else {
        EXPECT_EQ(finding.cause, Cause::kLateRank);
        EXPECT_EQ(finding.culprit->rank, 3);
      }
    }
  }
}

/// The links 1 -> 2 and 2 -> 3 lose packets, one much fewer than the other: lost acknowledgements, so node 2 is at
/// fault.
TEST(Explain, LostAcknowledgementsReportTheNodeFromTheLink) {
  struct Side {
    int lossy;
    int echo;
    bool into;
  };
  for (const Side& side : {Side{1, 2, true}, Side{2, 1, false}}) {
    JobOptions options{.seed = 21};
    options.faults = {{.kind = FaultKind::kPacketLoss, .rank = side.lossy, .loss_per_step = 0.7},
                      {.kind = FaultKind::kPacketLoss, .rank = side.echo, .loss_per_step = 0.15}};
    const Report report = report_of_ring(options);
    SCOPED_TRACE(findings_of(report));
    ASSERT_EQ(report.findings.size(), 1U);
    ASSERT_TRUE(report.findings[0].culprit.has_value());
    EXPECT_EQ(report.findings[0].culprit->rank, 2);
    EXPECT_EQ(report.findings[0].link->src_rank, side.lossy);
    EXPECT_EQ(report.findings[0].link->dst_rank == 2, side.into);
  }
}

TEST(Explain, TwoLinksThatLoseAlikeAreTwoFindings) {
  JobOptions options{.seed = 22};
  options.faults = {{.kind = FaultKind::kPacketLoss, .rank = 1, .loss_per_step = 0.4},
                    {.kind = FaultKind::kPacketLoss, .rank = 2, .loss_per_step = 0.4}};
  const Report report = report_of_ring(options);
  SCOPED_TRACE(findings_of(report));
  EXPECT_EQ(report.findings.size(), 2U);
}

TEST(Explain, TwoLateRanksAreBothNamed) {
  JobOptions options{.steps = 400, .seed = 9};
  options.faults = {{.kind = FaultKind::kLateRank, .rank = 0, .to_s = 12},
                    {.kind = FaultKind::kLateRank, .rank = 2, .from_s = 14}};
  const Report report = report_of_ring(options);
  SCOPED_TRACE(findings_of(report));
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_NE(report.findings[0].culprit->rank, report.findings[1].culprit->rank);
}

TEST(Explain, ASingleLateArrivalIsFound) {
  JobOptions options = with_fault(FaultKind::kLateRank, 2, 7);
  options.faults[0].late_ms = 400;
  options.faults[0].to_s = 2.3;  // the next step begins after that
  expect_fault(report_of_ring(options), FaultKind::kLateRank, 2);
}

TEST(Explain, RareWorkOfRankZeroIsNoFault) {
  JobOptions options = with_fault(FaultKind::kLateRank, 0, 7);
  options.faults[0].late_ms = 900;
  options.faults[0].to_s = 2.8;  // once
  const Report report = report_of_ring(options);
  EXPECT_TRUE(report.healthy) << findings_of(report);
  options.faults[0].to_s = 20;
  expect_fault(report_of_ring(options), FaultKind::kLateRank, 0);
}

TEST(Explain, WhatRanksComputeOnceAtTheBeginningIsNotReported) {
  JobOptions options{.seed = 7};
  options.faults = {{.kind = FaultKind::kLateRank, .rank = 2, .from_s = 0, .to_s = 0.4, .late_ms = 300},
                    {.kind = FaultKind::kLateRank, .rank = 3, .from_s = 0.4, .to_s = 0.8, .late_ms = 300}};
  const Report report = report_of_ring(options);
  EXPECT_TRUE(report.healthy) << findings_of(report);
}

TEST(Explain, ALateRankCostsWhatItIsLaterThanTheLastOfTheOthers) {
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    const Report report = report_of_ring(with_fault(FaultKind::kLateRank, 2, seed));
    ASSERT_EQ(report.findings.size(), 1U) << findings_of(report);
    const Finding& finding = report.findings[0];
    const double steps = static_cast<double>(finding.collectives_affected) / 4;  // number of buckets per step
    EXPECT_NEAR(finding.stall_ms, 80 * steps, 0.1 * 80 * steps) << findings_of(report);
  }
}

TEST(Explain, AStopThatNeverEndsIsAHangWithItsRank) {
  for (int rank = 0; rank < kRingRanks; ++rank) {
    JobOptions options = with_fault(FaultKind::kProcessStopped, rank, 8);
    options.faults[0].stop_ms = 0;
    const Report report = report_of_ring(options);
    expect_fault(report, FaultKind::kProcessStopped, rank);
    ASSERT_FALSE(report.findings.empty());
    EXPECT_EQ(report.findings[0].severity, Severity::kCritical);
  }
}

TEST(Explain, WithoutEvidenceTheCauseIsUnknownAndSaysWhatIsMissing) {
  for (const FaultKind kind : {FaultKind::kPacketLoss, FaultKind::kLateRank, FaultKind::kProcessStopped}) {
    JobOptions options = with_fault(kind, 1, 11);
    options.tcp = false;
    options.waits = false;
    const Report report = report_of_ring(options);
    SCOPED_TRACE(findings_of(report));
    ASSERT_EQ(report.findings.size(), 1U);
    if (kind == FaultKind::kLateRank) {  // it came last: that is certain
      small_job::expect_culprit(report.findings[0], Cause::kLateRank, 1);
      EXPECT_LE(report.findings[0].confidence, kProfilerAloneConfidence);
      EXPECT_EQ(small_job::evidence_of(report.findings[0], "missing").count, 1) << "what it did instead";
      continue;
    }
    EXPECT_EQ(report.findings[0].cause, Cause::kUnknown);
    EXPECT_EQ(small_job::evidence_of(report.findings[0], "missing").count, 3) << "of scheduler and network";
  }
}

TEST(Explain, AMissingNodeIsNamedAndTheRestStillJudged) {
  JobOptions options = with_fault(FaultKind::kPacketLoss, 1, 12);
  options.unrecorded = {3};
  const Report report = report_of_ring(options);
  expect_fault(report, FaultKind::kPacketLoss, 1);
  ASSERT_FALSE(report.notes.empty());
  golden::expect_text(report.notes[0]);
}

TEST(Explain, LossTowardsAMissingNodeStillNamesTheLink) {
  JobOptions options = with_fault(FaultKind::kPacketLoss, 1, 13);
  options.unrecorded = {2};
  const Report report = report_of_ring(options);
  SCOPED_TRACE(findings_of(report));
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].cause, Cause::kPacketLoss);
  EXPECT_EQ(report.findings[0].link->src_rank, 1);
  EXPECT_EQ(report.findings[0].link->dst->address, "10.77.0.3");
}

TEST(Explain, DifferentHostsAreAlignedByCausality) {
  JobOptions options = with_fault(FaultKind::kLateRank, 2, 14);
  options.separate_boots = true;
  options.clock_offsets_ns = {0, 2 * kNsPerSecond, -1500 * kNsPerMs, 90 * kNsPerMs};
  const Report report = report_of_ring(options);
  expect_fault(report, FaultKind::kLateRank, 2);
  EXPECT_EQ(report.notes.size(), 3U);
  ASSERT_EQ(report.clocks.size(), 4U);
  EXPECT_EQ(report.clocks[2].source, ClockSource::kSameBoot) << "the reference's host";
  EXPECT_EQ(report.clocks[1].reference, "node2") << "by its own clock it called first";
  EXPECT_TRUE(report.clocks[1].source == ClockSource::kCollectives || report.clocks[1].source == ClockSource::kEnds);
  ASSERT_TRUE(report.clocks[1].error_ns);
  EXPECT_NEAR(static_cast<double>(report.clocks[1].offset_ns), 3.5e9, static_cast<double>(*report.clocks[1].error_ns));
  EXPECT_TRUE(report.clocks[1].comparable);
}

/// Twelve milliseconds between clocks are no rank's lateness, and nothing distinguishes the two.
TEST(Explain, AttachedOnSeveralHostsNoRankIsLateByTheClock) {
  for (const bool faulty : {false, true}) {
    JobOptions options = faulty ? with_fault(FaultKind::kLateRank, 2, 14) : JobOptions{.seed = 14};
    options.separate_boots = true;
    options.known_communicator = false;
    options.clock_offsets_ns = {0, 12 * kNsPerMs, -9 * kNsPerMs, 15 * kNsPerMs};
    const Report report = report_of_ring(options);
    SCOPED_TRACE(findings_of(report));
    for (const Finding& finding : report.findings) {
      EXPECT_NE(finding.cause, Cause::kLateRank);
    }
    EXPECT_TRUE(faulty || report.findings.empty());
    const auto note = std::ranges::find_if(
        report.notes, [](const std::string& text) { return text.find("node1, node2, node3") != std::string::npos; });
    ASSERT_NE(note, report.notes.end());
    golden::expect_text(*note);
  }
}

/// Their kernels alone make such hosts comparable: where they are right a late rank is named, and where they are wrong
/// other ranks seem to end before the last one came.
TEST(Explain, KernelsThatVouchForWrongClocksMakeNoRankLate) {
  for (const bool right : {true, false}) {
    for (const bool faulty : {false, true}) {
      JobOptions options = faulty ? with_fault(FaultKind::kLateRank, 2, 14) : JobOptions{.seed = 14};
      options.separate_boots = true;
      options.known_communicator = false;
      if (!right) {
        options.clock_offsets_ns = {0, 12 * kNsPerMs, -9 * kNsPerMs, 15 * kNsPerMs};
      }
      SyntheticJob job(std::move(options));
      TimeRange ran{kForever, 0};
      ASSERT_TRUE(job.source().collectives({}, [&](const Collective& row) {
        ran = {std::min(ran.from_ns, row.timestamp_ns), std::max(ran.to_ns, row.timestamp_ns)};
      }));
      const auto nodes = job.source().nodes();
      ASSERT_TRUE(nodes);
      for (const Node& node : *nodes) {
        for (int64_t at_ns = ran.from_ns; at_ns < ran.to_ns; at_ns += kNsPerSecond) {
          job.source().accept(ClockReading{
              .node_id = node.node_id, .timestamp_ns = at_ns, .utc_ns = at_ns, .max_error_ns = kNsPerMs / 2});
        }
      }
      const Result<ExplainResult> result = explain(job.source());
      ASSERT_TRUE(result);
      const Report& report = result->report;
      SCOPED_TRACE(findings_of(report));
      EXPECT_EQ(std::ranges::count(report.clocks, ClockSource::kKernel, &ComparedClock::source), kRingRanks - 1);
      const auto is_late = [](const Finding& finding) { return finding.cause == Cause::kLateRank; };
      const auto late = std::ranges::find_if(report.findings, is_late);
      if (right || !faulty) {  // a rank that is late by far more than the clocks are wrong may be named all the same
        EXPECT_EQ(late != report.findings.end(), faulty);
      }
      if (late != report.findings.end()) {
        EXPECT_EQ(late->culprit->rank, 2);
      }
    }
  }
}

TEST(Explain, AHeadNodeWithoutCollectivesDoesNotHideALateRank) {
  for (const NodeId head : {NodeId{1}, NodeId{900}}) {
    JobOptions options = with_fault(FaultKind::kLateRank, 2, 14);
    options.separate_boots = true;
    options.clock_offsets_ns = {0, 2 * kNsPerSecond, -1500 * kNsPerMs, 90 * kNsPerMs};
    SyntheticJob job(std::move(options));
    MemorySource& source = job.source();
    MemorySource whole;  // the head node comes first or last
    const Node node{.node_id = head, .name = "head", .boot_id = "head boot"};
    if (head == 1) {
      whole.accept(node);
    }
    copy(source, whole);
    if (head != 1) {
      whole.accept(node);
    }
    const Result<ExplainResult> report = explain(whole);
    ASSERT_TRUE(report.has_value());
    expect_fault(report->report, FaultKind::kLateRank, 2);
    EXPECT_EQ(report->report.notes.size(), 3U);
  }
}

TEST(Explain, ARankThatSharesItsCoreAllTheTimeDoesNotHideLoss) {
  SyntheticJob job(with_fault(FaultKind::kPacketLoss, 1, 17));
  MemorySource shared;
  copy(job.source(), shared);
  const Result<ExplainResult> plain = explain(job.source());
  ASSERT_TRUE(plain.has_value());
  WaitSpan ready{.node_id = 103, .timestamp_ns = plain->report.range.from_ns};
  ready.window_ns = ready.waited_ns = ready.by_waited_ns = plain->report.range.to_ns - plain->report.range.from_ns;
  ready.kind = WaitKind::kRunnable;
  ready.pid = ready.tid = ready.by_pid = SyntheticJob::pid_of(3);
  ready.by_name = "nccl-train";
  shared.accept(ready);
  const Result<ExplainResult> result = explain(shared);
  ASSERT_TRUE(result.has_value());
  int contested = 0;
  for (const Decision& decision : result->decisions) {
    const auto any = [&](auto rule) {
      return std::any_of(decision.hypotheses.begin(), decision.hypotheses.end(), rule);
    };
    if (any([](const Hypothesis& o) { return o.applies && o.cause == Cause::kPacketLoss; }) &&
        any([](const Hypothesis& o) { return o.applies && o.dismissed; })) {
      ++contested;
      EXPECT_FALSE(decision.hypotheses[decision.chosen].dismissed);
    }
  }
  EXPECT_GT(contested, 0);
}

TEST(Explain, TheRangeLimitsWhatIsJudged) {
  SyntheticJob job(with_fault(FaultKind::kLateRank, 2, 15));
  const Result<ExplainResult> all = explain(job.source());
  ASSERT_TRUE(all.has_value());
  ASSERT_FALSE(all->decisions.empty());
  EXPECT_FALSE(all->decisions[0].hypotheses.empty());
  const Result<ExplainResult> before = explain(job.source(), {.window = {.to = TimePoint{1900 * kNsPerMs, true}}});
  ASSERT_TRUE(before.has_value());
  EXPECT_TRUE(before->report.healthy) << findings_of(before->report);
}

/// A rank is late by 300 ms in some steps; the window holds a part of the job.
TEST(Explain, CountsAndSharesAreOfTheWindow) {
  SyntheticJob job(with_fault(FaultKind::kLateRank, 2, 15));
  const Report all = explain(job.source())->report;
  EXPECT_EQ(all.judged, all.collectives);
  EXPECT_EQ(all.judged_range.from_ns, all.range.from_ns);
  ASSERT_EQ(all.findings.size(), 1U);
  const Finding& whole = all.findings[0];
  const int64_t middle_ns = (whole.window.from_ns + whole.window.to_ns) / 2;
  const TimeWindow half{.from = TimePoint{whole.window.from_ns - all.range.from_ns, true}, .to = TimePoint{middle_ns}};
  const Report part = explain(job.source(), {.window = half})->report;
  EXPECT_EQ(part.range.from_ns, all.range.from_ns);
  EXPECT_EQ(part.collectives, all.collectives);
  EXPECT_EQ(part.judged_range.from_ns, whole.window.from_ns);
  EXPECT_EQ(part.judged_range.to_ns, middle_ns);
  EXPECT_GT(part.judged, 0);
  EXPECT_LT(part.judged, all.judged);
  ASSERT_EQ(part.findings.size(), 1U) << findings_of(part);
  EXPECT_LT(part.findings[0].stall_ms, whole.stall_ms);
  EXPECT_GT(part.findings[0].stall_ms, 0);
  EXPECT_LE(part.findings[0].window.to_ns, middle_ns);
  EXPECT_LE(part.findings[0].stall_ms, static_cast<double>(middle_ns - whole.window.from_ns) / kNsPerMs);
}

TEST(Explain, AWindowOutsideOfTheRecordingIsRefused) {
  SyntheticJob job(with_fault(FaultKind::kLateRank, 2, 15));
  const auto error_of = [&](const TimeWindow& window) {
    const Result<ExplainResult> result = explain(job.source(), {.window = window});
    return result ? Error{} : result.error();
  };
  EXPECT_NE(error_of({.from = TimePoint{3600 * kNsPerSecond, true}}).what.find("--from"), std::string::npos);
  EXPECT_EQ(error_of({.from = TimePoint{3600 * kNsPerSecond, true}}).kind, ErrorKind::kNotFound);
  EXPECT_NE(error_of({.to = TimePoint{0}}).what.find("--to"), std::string::npos);
  const Error reversed = error_of({.from = TimePoint{kNsPerSecond, true}, .to = TimePoint{kNsPerMs, true}});
  EXPECT_EQ(reversed.kind, ErrorKind::kUsage);
  golden::expect_text(reversed.what);
}

TEST(Explain, NothingIsJudgedWhereThereIsNothing) {
  MemorySource nothing;
  nothing.accept(Node{.node_id = 1, .name = "node0", .started_ns = 5 * kNsPerSecond});
  const Result<ExplainResult> report = explain(nothing);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->report.judged, 0);
  EXPECT_EQ(report->report.range.from_ns, 5 * kNsPerSecond);
  EXPECT_TRUE(explain(nothing, {.window = {.from = TimePoint{kNsPerSecond, true}}}).has_value());
}

TEST(Explain, TheSameSourceGivesTheSameReport) {
  SyntheticJob job(with_fault(FaultKind::kPacketLoss, 0, 16));
  const Result<ExplainResult> first = explain(job.source());
  const Result<ExplainResult> second = explain(job.source());
  ASSERT_TRUE(first && second);
  EXPECT_EQ(findings_of(first->report), findings_of(second->report));
}

}  // namespace
}  // namespace stalltrace::analysis
