// SPDX-License-Identifier: Apache-2.0
// A running trace: a finding appears within seconds of its fault, grows, ends and resumes; a second one can exist at
// the same time; days need no more memory than minutes. A single node's view reports only what one node can know.
#include "analysis/live/live_findings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analysis/testing/replay.h"
#include "analysis/testing/small_job.h"
#include "analysis/testing/synthetic_cluster.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kOriginNs = 1'800'000'000LL * kNsPerSecond;
constexpr int64_t kReportedWithinNs = 5 * kNsPerSecond;

constexpr int64_t after(double seconds) { return kOriginNs + static_cast<int64_t>(seconds * kNsPerSecond); }

std::string reported(const std::vector<LiveChange>& changes) {
  constexpr const char* kNews[] = {"began", "grew", "ended", "came back"};
  std::string text;
  for (const LiveChange& change : changes) {
    const Finding& finding = change.finding;
    text +=
        fmt::format("[{}] {} {} at {:.1f} s: {} [{:.0f} ms in {}]\n", change.number,
                    kNews[static_cast<int>(change.news)], to_text(finding.cause),
                    static_cast<double>(finding.ended_ns.value_or(finding.detected_ns.value_or(0)) - kOriginNs) / 1e9,
                    finding.summary, finding.stall_ms, finding.collectives_affected);
  }
  return text;
}

std::vector<LiveChange> of(const std::vector<LiveChange>& changes, LiveNews news) {
  std::vector<LiveChange> some;
  std::copy_if(changes.begin(), changes.end(), std::back_inserter(some),
               [&](const LiveChange& change) { return change.news == news; });
  return some;
}

std::vector<LiveChange> play(JobOptions options, double seconds) {
  SyntheticJob job(std::move(options));
  LiveAnalysis live;
  return Replay(job.source()).play(live, after(seconds));
}

JobOptions with_fault(FaultKind kind, int rank, double from_s, double to_s) {
  JobOptions options{.steps = 500, .seed = 3};
  options.faults = {{.kind = kind, .rank = rank, .from_s = from_s, .to_s = to_s}};
  return options;
}

constexpr Cause cause_of(FaultKind kind) {
  constexpr Cause kCauses[] = {Cause::kPacketLoss, Cause::kLateRank, Cause::kCpuContention, Cause::kProcessStopped};
  return kCauses[static_cast<int>(kind)];
}

class EveryLiveFault : public testing::TestWithParam<FaultKind> {};

TEST_P(EveryLiveFault, IsReportedWithinFiveSecondsAndItsEndToo) {
  const std::vector<LiveChange> changes = play(with_fault(GetParam(), 2, 6, 12), 25);
  SCOPED_TRACE(reported(changes));
  const std::vector<LiveChange> began = of(changes, LiveNews::kBegan);
  ASSERT_EQ(began.size(), 1U);
  EXPECT_EQ(began[0].finding.cause, cause_of(GetParam()));
  EXPECT_GE(*began[0].finding.detected_ns, after(6));
  EXPECT_LE(*began[0].finding.detected_ns, after(6) + kReportedWithinNs);
  const std::vector<LiveChange> ended = of(changes, LiveNews::kEnded);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].number, began[0].number);
  EXPECT_EQ(ended[0].explained_by, 0);
  EXPECT_EQ(ended[0].finding.detected_ns, began[0].finding.detected_ns);
  EXPECT_LE(*ended[0].finding.ended_ns, ended[0].finding.window.to_ns + kReportedWithinNs + kNsPerSecond);
}

INSTANTIATE_TEST_SUITE_P(Faults, EveryLiveFault,
                         testing::Values(FaultKind::kPacketLoss, FaultKind::kLateRank, FaultKind::kCpuContention,
                                         FaultKind::kProcessStopped));

TEST(Live, AHealthyJobReportsNothing) {
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    const std::vector<LiveChange> changes = play({.steps = 500, .seed = seed}, 25);
    EXPECT_TRUE(changes.empty()) << seed << "\n" << reported(changes);
  }
}

TEST(Live, AFindingOutgrowsTheWindow) {
  JobOptions options{.steps = 1400, .seed = 4};
  options.faults = {{.kind = FaultKind::kLateRank, .rank = 1, .from_s = 5, .to_s = 75}};
  SyntheticJob job(options);
  const Result<ExplainResult> whole = stalltrace::explain(job.source());
  ASSERT_TRUE(whole && whole->report.findings.size() == 1);
  LiveAnalysis live;
  const std::vector<LiveChange> changes = Replay(job.source()).play(live, after(100));
  SCOPED_TRACE(reported(changes));
  const std::vector<LiveChange> ended = of(changes, LiveNews::kEnded);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].number, 1);
  EXPECT_NEAR(ended[0].finding.stall_ms, whole->report.findings[0].stall_ms, 0.05 * whole->report.findings[0].stall_ms);
  EXPECT_NEAR(static_cast<double>(ended[0].finding.collectives_affected),
              static_cast<double>(whole->report.findings[0].collectives_affected),
              0.05 * static_cast<double>(whole->report.findings[0].collectives_affected));
  EXPECT_EQ(ended[0].finding.window.from_ns, whole->report.findings[0].window.from_ns);
}

TEST(Live, WhatComesAndGoesIsOneFinding) {
  JobOptions options{.steps = 900, .seed = 5};
  options.faults = {{.kind = FaultKind::kLateRank, .rank = 1, .from_s = 5, .to_s = 9},
                    {.kind = FaultKind::kLateRank, .rank = 1, .from_s = 20, .to_s = 24}};
  const std::vector<LiveChange> changes = play(options, 40);
  SCOPED_TRACE(reported(changes));
  EXPECT_EQ(of(changes, LiveNews::kBegan).size(), 1U);
  ASSERT_EQ(of(changes, LiveNews::kCameBack).size(), 1U);
  EXPECT_FALSE(of(changes, LiveNews::kCameBack)[0].finding.ended_ns.has_value());
  EXPECT_EQ(of(changes, LiveNews::kEnded).size(), 2U);
  for (const LiveChange& change : changes) {
    EXPECT_EQ(change.number, 1);
  }
}

TEST(Live, ASecondFaultIsASecondFinding) {
  JobOptions options{.steps = 500, .seed = 6};
  options.faults = {{.kind = FaultKind::kLateRank, .rank = 1, .from_s = 5, .to_s = 20},
                    {.kind = FaultKind::kPacketLoss, .rank = 2, .from_s = 10, .to_s = 20}};
  const std::vector<LiveChange> changes = play(options, 30);
  SCOPED_TRACE(reported(changes));
  const std::vector<LiveChange> began = of(changes, LiveNews::kBegan);
  ASSERT_EQ(began.size(), 2U);
  EXPECT_EQ(began[0].finding.cause, Cause::kLateRank);
  EXPECT_EQ(began[1].finding.cause, Cause::kPacketLoss);
  EXPECT_EQ(began[1].number, 2);
  EXPECT_LE(*began[1].finding.detected_ns, after(10) + kReportedWithinNs);
}

/// The trace ends shortly after a stop: by then it is over, although it has not been quiet for long.
TEST(Live, TheEndOfATraceEndsWhatIsOver) {
  Report report;
  report.findings = {
      {.cause = Cause::kProcessStopped, .window = {after(10), after(12)}, .lost = {{after(10), after(12)}}}};
  LiveFindings findings;
  EXPECT_TRUE(findings.update(report, {after(0), after(11)}).empty());
  EXPECT_EQ(of(findings.update(report, {after(0), after(12)}), LiveNews::kBegan).size(), 1U);
  EXPECT_TRUE(findings.close(after(12)).empty());  // it lasts
  EXPECT_TRUE(findings.update({}, {after(0), after(13)}).empty());
  const std::vector<LiveChange> changes = findings.close(after(13));
  ASSERT_EQ(of(changes, LiveNews::kEnded).size(), 1U);
  EXPECT_EQ(changes[0].finding.ended_ns, after(13));
  EXPECT_TRUE(findings.close(after(14)).empty());
}

/// A rank leaves out the job's last call: the others hang in it until the trace ends.
TEST(Live, AHangIsReportedWhileItLastsAndForAsLong) {
  MemorySource source;
  small_job::fill(source, small_job::hang({2}));
  LiveAnalysis live;
  const int64_t onset_ns = small_job::kLastArrivalNs;
  const std::vector<LiveChange> changes = Replay(source).play(live, onset_ns + 300 * kNsPerSecond);
  SCOPED_TRACE(reported(changes));
  const std::vector<LiveChange> began = of(changes, LiveNews::kBegan);
  ASSERT_EQ(began.size(), 1U);
  small_job::expect_culprit(began[0].finding, Cause::kMissingCollective, 2);
  EXPECT_LE(*began[0].finding.detected_ns, onset_ns + kReportedWithinNs);
  EXPECT_TRUE(of(changes, LiveNews::kEnded).empty());
  EXPECT_GT(changes.back().finding.stall_ms, 200'000);
  EXPECT_LT(changes.size(), 60U);
}

/// Transfers become ten times as long and stay so for longer than the window.
TEST(Live, WhatLastsDoesNotBecomeUsual) {
  MemorySource source;
  LiveAnalysis live;
  source.accept(Node{.node_id = 1, .name = "node0", .boot_id = "boot", .started_ns = kOriginNs});
  int64_t time_ns = kOriginNs;
  for (int64_t step = 0; time_ns < after(150); ++step) {
    const int64_t transfer_ns = (time_ns < after(20) ? 10 : 100) * kNsPerMs;
    for (int rank = 0; rank < 2; ++rank) {
      Collective call = small_job::call_of(rank, step);
      call.node_id = 1;
      call.event_id = make_event_id(1, static_cast<uint64_t>(2 * step + rank + 1));
      call.timestamp_ns = time_ns;
      call.duration_ns = transfer_ns;
      call.nranks = 2;
      source.accept(call);
    }
    time_ns += transfer_ns + 10 * kNsPerMs;
  }
  const std::vector<LiveChange> changes = Replay(source).play(live, after(149));
  SCOPED_TRACE(reported(changes));
  ASSERT_EQ(of(changes, LiveNews::kBegan).size(), 1U);
  EXPECT_LE(*changes[0].finding.detected_ns, after(20) + kReportedWithinNs);
  EXPECT_TRUE(of(changes, LiveNews::kEnded).empty());
  EXPECT_GT(changes.back().finding.stall_ms, 80'000);
}

TEST(Live, DaysNeedNoMoreMemoryThanMinutes) {
  LiveAnalysis live({.length_ns = 30 * kNsPerSecond, .rows = 2'000, .states = 64});
  live.accept(Node{.node_id = 1, .name = "node0", .boot_id = "boot", .started_ns = kOriginNs});
  size_t most = 0;
  uint64_t number = 0;
  for (int64_t second = 0; second < 3 * 24 * 3600; second += 60) {  // one job a minute with all its rows
    const int64_t now_ns = kOriginNs + second * kNsPerSecond;
    const auto pid = static_cast<int32_t>(1000 + second);
    Process process{.node_id = 1, .pid = pid, .start_ns = now_ns};
    process.rank = 0;
    live.accept(process);
    live.accept(
        Communicator{.node_id = 1, .pid = pid, .comm_ptr = 1, .comm_id_hash = number + 1, .created_ns = now_ns});
    for (uint64_t i = 0; i < 20; ++i) {
      live.accept(Connection{.node_id = 1, .cookie = ++number, .pid = pid, .opened_ns = now_ns});
      live.accept(TcpSample{.node_id = 1, .timestamp_ns = now_ns, .cookie = number, .pid = pid});
      live.accept(WaitSpan{.node_id = 1, .timestamp_ns = now_ns, .window_ns = kNsPerMs, .pid = pid});
      Collective call{.event_id = make_event_id(1, number), .node_id = 1, .timestamp_ns = now_ns};
      call.pid = pid;
      live.accept(call);  // it never ends
    }
    ASSERT_TRUE(live.run_round(now_ns).has_value());
    most = std::max(most, live.rows());
  }
  EXPECT_LT(most, 1'000U);
}

}  // namespace
}  // namespace stalltrace::analysis
