// SPDX-License-Identifier: Apache-2.0
// An absent rank: how long the others have waited, compared with their earlier waits.
#include <gtest/gtest.h>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/small_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

/// Rank 2 does not enter the last call for `seconds`, until the recording ends; it was `late_ns` late in the 50th. What
/// its thread does in that time is recorded as `state`.
Finding absent_for(int64_t seconds, int64_t late_ns, std::optional<WaitKind> state = {}) {
  Ending ending = hang({2});
  const auto call = ending.call;
  ending.call = [call, late_ns](int rank, int64_t step, Collective& row) {
    if (step >= 50) {
      row.timestamp_ns += late_ns;  // the later steps are delayed by the same time
    }
    if (step == 50 && rank != 2) {
      row.timestamp_ns -= late_ns;
      *row.duration_ns += late_ns;
    }
    return call(rank, step, row);
  };
  ending.node = [=](int, Node& node) { node.ended_ns = kLastArrivalNs + late_ns + seconds * kNsPerSecond; };
  MemorySource source;
  fill(source, ending);
  if (state) {
    WaitSpan span{.node_id = node_of_rank(2), .timestamp_ns = kLastArrivalNs, .window_ns = seconds * kNsPerSecond};
    span.waited_ns = span.window_ns;
    span.kind = *state;
    span.pid = span.tid = 12;
    source.accept(span);
  }
  for (const Finding& finding : report_of(source).findings) {
    if (finding.cause == Cause::kMissingCollective) {
      return finding;
    }
  }
  ADD_FAILURE() << reported(report_of(source));
  return {};
}

TEST(MissingCollective, MayStillComeUntilItLastsUnusuallyLong) {
  EXPECT_EQ(absent_for(5, 0).severity, Severity::kWaiting);
  EXPECT_EQ(absent_for(119, 0).severity, Severity::kWaiting);
  EXPECT_EQ(absent_for(121, 0).severity, Severity::kCritical);
  EXPECT_EQ(absent_for(170, 60 * kNsPerSecond).severity, Severity::kWaiting);
  EXPECT_EQ(absent_for(182, 60 * kNsPerSecond).severity, Severity::kCritical);
}

/// A first evaluation or a compilation takes minutes; a rank that is blocked for minutes does not go on.
TEST(MissingCollective, ARankThatComputesProvesNoHangForMinutes) {
  const Finding finding = absent_for(125, 0, WaitKind::kOnCpu);
  EXPECT_EQ(finding.severity, Severity::kWaiting);
  EXPECT_EQ(finding.summary.find("hung"), std::string::npos) << finding.summary;
  EXPECT_NE(finding.summary.find("computing"), std::string::npos) << finding.summary;
  EXPECT_EQ(absent_for(599, 0, WaitKind::kOnCpu).severity, Severity::kWaiting);
  EXPECT_EQ(absent_for(601, 0, WaitKind::kOnCpu).severity, Severity::kCritical);
  EXPECT_EQ(absent_for(121, 0, WaitKind::kBlocked).severity, Severity::kCritical);
  EXPECT_EQ(absent_for(119, 0, WaitKind::kBlocked).severity, Severity::kWaiting);
}

/// A rank that does not come because it was stopped or ended can't come by itself: that needs no long wait.
TEST(MissingCollective, ARankThatWasStoppedOrEndedHangsAtOnce) {
  for (const Cause cause : {Cause::kProcessStopped, Cause::kDeadRank}) {
    MemorySource source;
    Ending ending = hang({2});
    ending.node = [](int, Node& node) { node.ended_ns = kLastArrivalNs + 3 * kNsPerSecond; };
    ending.process = [=](int rank, Process& process) {
      if (rank == 2 && cause == Cause::kDeadRank) {
        exit_at(process, kLastArrivalNs - kNsPerMs, 9);
      }
    };
    fill(source, ending);
    WaitSpan span{.node_id = node_of_rank(2), .timestamp_ns = kLastArrivalNs, .window_ns = 3 * kNsPerSecond};
    span.waited_ns = span.window_ns;
    span.kind = WaitKind::kStopped;
    span.pid = span.tid = 12;
    if (cause == Cause::kProcessStopped) {
      source.accept(span);
    }
    expect(report_of(source), cause, 2);
  }
}

TEST(MissingCollective, IsComparedWithTheLongestWaitBefore) {
  const Finding finding = absent_for(5, 100 * kNsPerMs);
  EXPECT_EQ(finding.summary.find("hung"), std::string::npos) << finding.summary;
  expect_golden_text("missing_collective that may still end", finding);
}

}  // namespace
}  // namespace stalltrace::analysis
