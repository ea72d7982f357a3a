// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analysis/explain.h"
#include "analysis/testing/golden_text.h"
#include "base/clock.h"
#include "model/events/imported_evidence.h"
#include "model/memory_source.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kBegin = int64_t{20'000} * 86'400 * kNsPerSecond;

/// The output of a job, in which each line has its speaker.
struct Output {
  MemorySource source;
  int64_t lines = 0;

  void say(std::optional<int32_t> rank, std::string text) {
    LogLine row{.node_id = 1, .timestamp_ns = kBegin + ++lines, .pid = rank ? 100 + *rank : 0, .rank = rank};
    row.kind = LogKind::kWarning;
    row.line = lines;
    row.text = std::move(text);
    source.accept(std::move(row));
  }
  Report explained() {
    Node node{.node_id = 1, .name = "node1", .hostname = "node1", .agent_version = "nccl_log", .started_ns = kBegin};
    node.missing_evidence = kLacksDurations;
    source.accept(node);
    const auto result = explain(source);
    EXPECT_TRUE(result);
    return result ? result->report : Report();
  }
  Finding only() {
    const Report report = explained();
    EXPECT_EQ(report.findings.size(), 1U);
    return report.findings.empty() ? Finding() : report.findings[0];
  }
};

std::string mismatch(int one, int other, std::string_view shape = "[10]", std::string_view other_shape = "[20]") {
  return fmt::format(
      "Detected mismatch between collectives on ranks. Rank {} is running collective: CollectiveFingerPrint("
      "SequenceNumber=7, OpType=ALLREDUCE, TensorShape={}, TensorDtypes=Float, TensorDeviceTypes=cuda), but Rank {} is "
      "running collective: CollectiveFingerPrint(SequenceNumber=7, OpType=ALLREDUCE, TensorShape={}, "
      "TensorDtypes=Float, TensorDeviceTypes=cuda).",
      one, shape, other, other_shape);
}

TEST(TorchReports, TheOddRankOfACollective) {
  Output output;
  output.say(0, mismatch(0, 2));
  output.say(1, mismatch(1, 2));
  output.say(2, mismatch(2, 0, "[20]", "[10]"));
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kMismatchedCollective);
  EXPECT_EQ(finding.severity, Severity::kCritical);
  EXPECT_EQ(finding.culprit->rank, 2);
  EXPECT_EQ(finding.culprit->pid, 102);
  expect_golden_text("torch: mismatch", finding);
}

TEST(TorchReports, OtherNumbersAreNotOneCall) {
  Output output;
  std::string text = mismatch(1, 3);
  text.replace(text.rfind("SequenceNumber=7"), 16, "SequenceNumber=2");
  output.say(1, text);
  const Finding finding = output.only();
  EXPECT_LE(finding.confidence, 0.4);
  expect_golden_text("torch: a mismatch of numbers", finding);
}

/// Lines of NCCL 2.28.9 (sockets; an H200, docs/evidence) and of its InfiniBand transport.
TEST(MessageSizes, ThatDifferShowThatTheCallsDo) {
  const auto found = [](const std::string& text) {
    Output output;
    output.say(1, "something else");
    output.say(0, text);
    output.say(0, "NET/Socket : peer 127.0.0.1<50878> message truncated : receiving 9 bytes instead of 8.");
    Finding finding = output.only();
    EXPECT_FALSE(finding.culprit);
    EXPECT_EQ(finding.evidence[0].count, 2);
    return finding;
  };
  expect_golden_text("nccl: a message longer than its receiver expects",
                     found("NET/Socket : peer 127.0.0.1<50878> message truncated : receiving 266240 bytes instead of "
                           "65536. If you believe"));
  const Finding by_sender = found(
      "NET/IB : req 0/1 tag 7 peer 10.0.0.2<4545> collective mismatch error, local size 266240 remote size 65536");
  expect_golden_text("nccl: a message longer than its receiver expects, at the sender", by_sender);
  EXPECT_EQ(found("NET/IB : collective mismatch error local size 266240 remote 65536 addr 7f rkey 1 seq 1/1").summary,
            by_sender.summary);
  Output cut;
  cut.say(0, "NET/Socket : peer 127.0.0.1<50878> message truncated : receiving 266240 bytes inst");
  EXPECT_TRUE(cut.explained().findings.empty());
  Output reported;  // PyTorch's report names the ranks and the calls
  reported.say(0, mismatch(0, 1));
  const std::string by_pytorch = reported.only().summary;
  reported.say(0, "NET/Socket : peer 127.0.0.1<50878> message truncated : receiving 9 bytes instead of 8.");
  EXPECT_EQ(reported.only().summary, by_pytorch);
}

TEST(TorchReports, OneReportOfTwoRanksBlamesNeither) {
  Output output;
  output.say(0, mismatch(0, 1));
  EXPECT_FALSE(output.only().culprit);
  Output group;  // ranks of a process group: rank 4 of the job is its rank 0
  group.say(4, mismatch(0, 2));
  group.say(5, mismatch(1, 2));
  EXPECT_FALSE(group.only().culprit);
}

/// Groups of a job number their ranks from 0, and their lines may not have the rank in the job.
TEST(TorchReports, RanksOfAGroupThatIsNotKnownAreNotTheJobs) {
  Output mismatches;
  mismatches.say(std::nullopt, mismatch(0, 2));
  mismatches.say(std::nullopt, mismatch(1, 2));
  EXPECT_FALSE(mismatches.only().culprit);
  Output barriers;
  barriers.say(std::nullopt, "Rank 1 failed to pass monitoredBarrier in 2000 ms");
  EXPECT_FALSE(barriers.only().culprit);
}

/// #7 of one run, and #9 after its restart, in which it was another rank.
TEST(TorchReports, CollectivesOfOneNumberAreCompared) {
  Output output;
  const auto numbered = [](std::string text, std::string_view number) {
    for (size_t at = 0; (at = text.find("SequenceNumber=7", at)) != std::string::npos; ++at) {
      text.replace(at, 16, fmt::format("SequenceNumber={}", number));
    }
    return text;
  };
  output.say(0, mismatch(0, 2));
  output.say(1, mismatch(1, 2));
  output.say(0, numbered(mismatch(0, 1), "9"));
  output.say(2, numbered(mismatch(2, 1), "9"));
  const Report report = output.explained();
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_EQ(report.findings[0].culprit->rank, 2);
  EXPECT_EQ(report.findings[1].culprit->rank, 1);
}

TEST(TorchReports, UnusedParametersAreNamed) {
  Output output;
  output.say(1, "Parameters which did not receive grad for rank 1: fc2.weight, fc2.bias");
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kMissingCollective);
  EXPECT_EQ(finding.culprit->rank, 1);
  expect_golden_text("torch: unused parameters", finding);
  output.say(0, "Parameters which did not receive grad for rank 0: fc2.weight, fc2.bias");
  EXPECT_FALSE(output.only().culprit);
}

TEST(TorchReports, ARankThatMissesABarrier) {
  Output output;
  output.say(0, "Rank 3 failed to pass monitoredBarrier in 2000 ms");
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kMissingCollective);
  EXPECT_EQ(finding.op, Operation::kBarrier);
  EXPECT_EQ(finding.culprit->rank, 3);
  expect_golden_text("torch: barrier", finding);
  Output group;
  group.say(4, "Rank 1 failed to pass monitoredBarrier in 2000 ms");
  EXPECT_FALSE(group.only().culprit);
}

}  // namespace
}  // namespace stalltrace::analysis
