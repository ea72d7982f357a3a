// SPDX-License-Identifier: Apache-2.0
// What the numbers of PyTorch's watchdog show, with nothing else in the logs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/explain.h"
#include "analysis/testing/golden_text.h"
#include "base/clock.h"
#include "model/events/imported_evidence.h"
#include "model/memory_source.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kWatchdogBegin = int64_t{20'000} * 86'400 * kNsPerSecond;
constexpr std::string_view kDefault = "0(default_pg)";

/// The output of a job, in which each line has its speaker.
struct WatchdogOutput {
  std::vector<LogLine> lines;
  int64_t clock_ms = 0;  // a line takes 1 ms

  void later(int64_t ms) { clock_ms += ms; }
  /// With PyTorch's own prefix.
  void print(int32_t rank, std::string_view text) {
    ++clock_ms;
    say(rank, fmt::format("[rank{}]:[E1004 00:{:02}:{:02}.{:03}000000 ProcessGroupNCCL.cpp:632] {}", rank,
                          clock_ms / 60'000, clock_ms / 1000 % 60, clock_ms % 1000, text));
  }
  void say(int32_t rank, std::string text) {
    LogLine row{.node_id = 1, .timestamp_ns = kWatchdogBegin + std::ssize(lines), .pid = 100 + rank, .rank = rank};
    row.kind = LogKind::kTimeout;
    row.line = std::ssize(lines) + 1;
    row.text = std::move(text);
    lines.push_back(std::move(row));
  }
  void caught(int32_t rank, int64_t number, std::string_view op = "ALLREDUCE", int64_t elements = 1000) {
    print(rank,
          fmt::format("[Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, OpType={}, "
                      "NumelIn={}, NumelOut={}, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.",
                      rank, number, op, elements, elements));
  }
  void state(int32_t rank, int64_t number, int64_t enqueued, int64_t completed, std::string_view group = kDefault) {
    print(rank,
          fmt::format("[PG ID 0 PG GUID {} Rank 0]  failure detected by watchdog at work sequence id: {} PG status: "
                      "last enqueued work: {}, last completed work: {}",
                      group, number, enqueued, completed));
  }
  /// The lines of a rank that waits in its last call.
  void waits(int32_t rank, int64_t number, std::string_view group = kDefault, std::string_view op = "ALLREDUCE",
             int64_t elements = 1000) {
    caught(rank, number, op, elements);
    state(rank, number, number, number - 1, group);
  }
  void asked(int32_t rank, int64_t enqueued, int64_t completed, std::string_view group = kDefault) {
    print(rank,
          fmt::format("[PG ID 0 PG GUID {} Rank 0] Received a dump signal due to a collective timeout from rank 0 and "
                      "we will try our best to dump the debug info. Last enqueued NCCL work: {}, last completed NCCL "
                      "work: {}.",
                      group, enqueued, completed));
  }

  [[nodiscard]] Report explained() const {
    MemorySource source;
    Node node{
        .node_id = 1, .name = "node1", .hostname = "node1", .agent_version = "nccl_log", .started_ns = kWatchdogBegin};
    node.missing_evidence = kLacksDurations;
    source.accept(node);
    for (const LogLine& line : lines) {
      source.accept(line);
    }
    const auto result = explain(source);
    EXPECT_TRUE(result);
    return result ? result->report : Report();
  }
  /// The only finding, which is the same whatever the order of the ranks' logs.
  [[nodiscard]] Finding only() const {
    WatchdogOutput turned{lines};
    std::ranges::stable_sort(turned.lines, std::greater<>(), [](const LogLine& line) { return line.rank.value(); });
    const Report report = explained();
    const Report again = turned.explained();
    EXPECT_EQ(report.findings.size(), 1U);
    EXPECT_EQ(again.findings.size(), 1U);
    if (report.findings.empty() || again.findings.empty()) {
      return {};
    }
    EXPECT_EQ(again.findings[0].summary, report.findings[0].summary);
    return report.findings[0];
  }
};

TEST(Watchdog, ARankThatDidNotBeginTheCall) {
  WatchdogOutput output;
  for (const int rank : {0, 1, 2}) {
    output.waits(rank, 4214);
  }
  output.asked(3, 4213, 4213);
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kMissingCollective);
  EXPECT_EQ(finding.severity, Severity::kCritical);
  EXPECT_EQ(finding.culprit->rank, 3);
  EXPECT_EQ(finding.culprit->pid, 103);
  EXPECT_EQ(finding.op, Operation::kAllReduce);
  EXPECT_DOUBLE_EQ(finding.stall_ms, 600'029);
  EXPECT_GE(finding.confidence, 0.8);
  expect_golden_text("watchdog: absent", finding);
}

TEST(Watchdog, ARankOfWhichAnEarlierCallHadNotEndedIsLessCertain) {
  WatchdogOutput output;
  output.waits(0, 4214);
  output.waits(1, 4214);
  output.asked(2, 4213, 4210);
  const Finding finding = output.only();
  EXPECT_EQ(finding.culprit->rank, 2);
  EXPECT_LT(finding.confidence, 0.8);
}

TEST(Watchdog, ARankThatMadeOneCallMoreThanAllOthers) {
  WatchdogOutput output;
  output.waits(0, 11, kDefault, "ALLREDUCE", 1);
  for (const int rank : {1, 2, 3}) {
    output.asked(rank, 10, 10);
  }
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kMissingCollective);
  EXPECT_EQ(finding.culprit->rank, 0);
  expect_golden_text("watchdog: one call more", finding);
}

TEST(Watchdog, ARankWhoseCallEndedElsewhere) {
  WatchdogOutput output;
  output.waits(0, 4214);
  output.waits(1, 4214);
  output.waits(2, 4213);
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kUnknown);
  EXPECT_EQ(finding.culprit->rank, 2);
  expect_golden_text("watchdog: stuck", finding);
}

TEST(Watchdog, WithoutNamesOfGroupsLittleIsCertain) {
  WatchdogOutput output;  // PyTorch 2.0 to 2.2
  output.caught(0, 4214);
  output.caught(1, 4214);
  output.caught(2, 4213);
  const Finding finding = output.only();
  EXPECT_EQ(finding.culprit->rank, 2);
  EXPECT_LE(finding.confidence, 0.3);
  WatchdogOutput other;  // may be two groups' calls
  other.caught(0, 7, "ALLREDUCE");
  other.caught(1, 7, "ALLGATHER");
  EXPECT_EQ(other.only().cause, Cause::kUnknown);
  EXPECT_FALSE(other.only().culprit);
}

TEST(Watchdog, DifferentOperationsUnderOneNumber) {
  WatchdogOutput output;
  output.waits(0, 7);
  output.waits(1, 7);
  output.waits(2, 7, kDefault, "_ALLGATHER_BASE");
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kMismatchedCollective);
  EXPECT_EQ(finding.culprit->rank, 2);
  expect_golden_text("watchdog: mismatch", finding);
  WatchdogOutput sizes;
  sizes.waits(0, 7, kDefault, "ALLREDUCE", 10);
  sizes.waits(1, 7, kDefault, "ALLREDUCE", 20);
  EXPECT_EQ(sizes.only().cause, Cause::kMismatchedCollective);
  EXPECT_FALSE(sizes.only().culprit);
  WatchdogOutput uneven;  // an AllToAll may have other sizes on each rank
  uneven.waits(0, 7, kDefault, "ALLTOALL", 10);
  uneven.waits(1, 7, kDefault, "ALLTOALL", 20);
  EXPECT_EQ(uneven.only().cause, Cause::kUnknown);
}

TEST(Watchdog, ARankThatWaitsInAnotherGroupIsNotToBlame) {
  WatchdogOutput
      output;  // rank 3 is behind in its tensor parallel group; rank 2 waits for it there, and 0 for 2 in theirs
  output.waits(2, 90, "5");
  output.asked(3, 89, 89, "5");
  output.waits(0, 40, "8");
  output.asked(2, 39, 39, "8");
  output.waits(1, 40, "9");
  output.asked(3, 39, 39, "9");
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kMissingCollective);
  EXPECT_EQ(finding.culprit->rank, 3);
}

TEST(Watchdog, GroupsWhoseRanksWaitForEachOther) {
  WatchdogOutput output;  // rank 0 calls on group 5 first, rank 1 on group 6
  output.waits(0, 10, "5");
  output.asked(1, 9, 9, "5");
  output.waits(1, 20, "6");
  output.asked(0, 19, 19, "6");
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kMissingCollective);
  EXPECT_FALSE(finding.culprit);
  expect_golden_text("watchdog: crossed", finding);
}

TEST(Watchdog, AnEarlierAttemptInTheSameLogBlamesNoRank) {
  WatchdogOutput output;
  output.waits(0, 4214);
  output.waits(1, 4214);
  output.waits(0, 100);  // after the restart, in which rank 1 left no line
  const Finding none = output.only();
  EXPECT_EQ(none.cause, Cause::kUnknown);
  EXPECT_FALSE(none.culprit);
  WatchdogOutput asked;
  asked.waits(0, 200);
  asked.waits(1, 200);
  asked.waits(0, 100);
  asked.asked(1, 99, 99);  // can't wait in call 200
  EXPECT_EQ(asked.only().culprit->rank, 1);
}

TEST(Watchdog, WhereNoRankIsBehindNoneIsBlamed) {
  WatchdogOutput output;
  for (const int rank : {0, 1, 3}) {
    output.waits(rank, 5);
  }
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kUnknown);
  EXPECT_FALSE(finding.culprit);
  expect_golden_text("watchdog: all wait", finding);
}

TEST(Watchdog, NumbersOfBeforeTheTimeoutBlameNoRank) {
  WatchdogOutput output;  // as on an H200: a barrier on rank 0 alone
  output.waits(0, 231);
  output.asked(0, 231, 230);
  output.later(9'000);
  output.waits(1, 244);
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kUnknown);
  EXPECT_FALSE(finding.culprit);
  expect_golden_text("watchdog: older numbers", finding);
  WatchdogOutput at_once;
  at_once.waits(0, 231);
  at_once.waits(1, 244);
  EXPECT_EQ(at_once.only().culprit->rank, 0);
}

TEST(Watchdog, ARankThatWasBehindBeforeTheTimeoutMayHaveBegunTheCallSince) {
  for (const int64_t before_ms : {1'500, 9'000}) {
    WatchdogOutput output;
    output.asked(2, 4213, 4213);
    output.later(before_ms);
    output.waits(0, 4214);
    output.waits(1, 4214);
    const Finding finding = output.only();
    const bool one_moment = before_ms == 1'500;
    EXPECT_EQ(finding.cause, one_moment ? Cause::kMissingCollective : Cause::kUnknown);
    EXPECT_EQ(finding.culprit.has_value(), one_moment);
  }
}

TEST(Watchdog, OfTwoThatAreBehindTheOneWithNewNumbersIsLessCertain) {
  WatchdogOutput output;
  output.asked(3, 4213, 4213);
  output.later(9'000);
  for (const int rank : {0, 1}) {
    output.waits(rank, 4214);
  }
  output.asked(2, 4213, 4213);
  const Finding finding = output.only();
  EXPECT_EQ(finding.culprit->rank, 2);
  EXPECT_LE(finding.confidence, 0.3);
  expect_golden_text("watchdog: one of two has older numbers", finding);
}

TEST(Watchdog, LinesWithoutATimeCompareWithNothing) {
  WatchdogOutput output;
  output.say(0,
             "[PG ID 0 PG GUID 0(default_pg) Rank 0]  failure detected by watchdog at work sequence id: 4214 PG "
             "status: last enqueued work: 4214, last completed work: 4213");
  output.asked(1, 4213, 4213);
  EXPECT_EQ(output.only().cause, Cause::kUnknown);
  EXPECT_FALSE(output.only().culprit);
  WatchdogOutput stuck;
  stuck.say(0,
            "[PG ID 0 PG GUID 0(default_pg) Rank 0]  failure detected by watchdog at work sequence id: 4213 PG "
            "status: last enqueued work: 4213, last completed work: 4212");
  stuck.waits(1, 4214);
  EXPECT_EQ(stuck.only().cause, Cause::kUnknown);
  EXPECT_FALSE(stuck.only().culprit);
  expect_golden_text("watchdog: no times", stuck.only());
}

TEST(Watchdog, AnExceptionRepeatsNumbersOfBefore) {
  WatchdogOutput output;
  output.waits(0, 4213);
  output.later(9'000);
  output.waits(1, 4214);
  output.print(0,
               "[PG ID 0 PG GUID 0(default_pg) Rank 0] Process group watchdog thread terminated with exception: "
               "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4213, OpType=ALLREDUCE, "
               "NumelIn=1000, NumelOut=1000, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.");
  EXPECT_FALSE(output.only().culprit);
}

TEST(Watchdog, ARankThatAnsweredThatTheCallHadEnded) {
  WatchdogOutput output;
  output.waits(0, 231);
  output.asked(1, 244, 243);
  output.asked(2, 244, 243);
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kUnknown);
  EXPECT_EQ(finding.culprit->rank, 0);
  expect_golden_text("watchdog: ended elsewhere", finding);
}

TEST(Watchdog, ARankOfWhichOnlyTheTimeoutIsThereWaitsInTheOnlyGroupWithThatCall) {
  WatchdogOutput output;
  output.caught(0, 21);
  output.state(2, 21, 23, 20);
  expect_golden_text("watchdog: a timeout without a group", output.only());
  WatchdogOutput other;  // its call may be of a group of which there is no other line
  other.waits(0, 21);
  other.caught(2, 21, "_ALLGATHER_BASE");
  expect_golden_text("watchdog: a timeout in another operation", other.only());
  WatchdogOutput later;  // of another attempt of the job
  later.caught(0, 21);
  later.later(700'000);
  later.state(2, 21, 23, 20);
  EXPECT_DOUBLE_EQ(later.only().stall_ms, 0);
}

TEST(Watchdog, ACallWithoutANumberBlamesNoRank) {
  WatchdogOutput output;
  output.waits(0, 2);
  output.state(1, -1, 1, 1);
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kUnknown);
  EXPECT_FALSE(finding.culprit);
  expect_golden_text("watchdog: a call without a number", finding);
}

TEST(Watchdog, OfOneRankAloneIsNotKnownWhetherAnotherIsBehind) {
  WatchdogOutput output;
  output.print(3,
               "[PG ID 1 PG GUID 4 Rank 3] Process group watchdog thread terminated with exception: [Rank 3] Watchdog "
               "caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLGATHER, NumelIn=12, NumelOut=96, "
               "Timeout(ms)=600000) ran for 600021 milliseconds before timing out.");
  const Finding finding = output.only();
  EXPECT_EQ(finding.op, Operation::kAllGather);
  EXPECT_DOUBLE_EQ(finding.stall_ms, 600'021);
  expect_golden_text("watchdog: one rank alone", finding);
}

TEST(Watchdog, CollectivesOfSeveralTensorsAreCompared) {
  WatchdogOutput output;
  output.waits(0, 61, "9", "COALESCED", 100);
  output.waits(1, 61, "9", "COALESCED", 200);
  expect_golden_text("watchdog: several tensors", output.only());
}

TEST(Watchdog, CallsBetweenSomeRanksAreNotCompared) {
  WatchdogOutput output;
  output.waits(0, 7, kDefault, "SEND");
  output.waits(1, 9, kDefault, "RECV");
  output.asked(2, 3, 3);
  const Finding finding = output.only();  // the job hung all the same
  EXPECT_EQ(finding.cause, Cause::kUnknown);
  EXPECT_FALSE(finding.culprit);
  expect_golden_text("watchdog: not compared", finding);
}

TEST(Watchdog, LinesWithoutNumbersShowAHang) {
  WatchdogOutput output;  // PyTorch 1.x
  output.say(1,
             "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) "
             "ran for 1802713 milliseconds before timing out.");
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kUnknown);
  EXPECT_FALSE(finding.culprit);
  expect_golden_text("watchdog: no numbers", finding);
}

}  // namespace
}  // namespace stalltrace::analysis
