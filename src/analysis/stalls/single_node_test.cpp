// SPDX-License-Identifier: Apache-2.0
// One node's recording of a job on four nodes: its rank's own faults, and no conclusion about ranks on other nodes.
#include "analysis/stalls/single_node.h"

#include <gtest/gtest.h>

#include <optional>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/small_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

constexpr uint64_t kCookie = 5;
constexpr uint64_t kIdleCookie = 6;
constexpr int kRank = 2;
constexpr int32_t kPid = 10 + kRank;
constexpr NodeId kNode = 1 + kRank;

/// Only rank 2 of the job, with its connection from rank 1, until ten seconds after its last call.
class OneNode {
 public:
  OneNode() {
    node_ = {.node_id = kNode, .name = "node2", .boot_id = "boot", .started_ns = kOriginNs};
    node_.ended_ns = kLastArrivalNs + 10 * kNsPerSecond;
    process_ = {.node_id = kNode, .pid = kPid, .exe = "/opt/job/train"};
    process_.rank = kRank;
    process_.world_size = kRanks;
    connection_ = {.node_id = kNode, .cookie = kCookie, .pid = kPid, .opened_ns = kOriginNs};
    connection_.source = {"10.77.0.3", 50000};
    connection_.destination = {"10.77.0.2", 40000};
    connection_.thread_name = "NCCL Progress 0";
  }

  Process& process() { return process_; }
  void observe_for(int64_t duration_ns) { node_.ended_ns = kLastArrivalNs + duration_ns; }
  Connection& connection() { return connection_; }
  /// The data of rank 1 at `time_ns`: read, or not.
  void sample(int64_t time_ns, uint32_t unread_bytes) {
    TcpSample row{.node_id = kNode, .timestamp_ns = time_ns, .cookie = kCookie, .pid = kPid};
    row.bytes_received = 1 << 20;
    row.unread_bytes = unread_bytes;
    samples_.push_back(row);
  }
  /// A second connection of the same thread, which has received data before.
  void add_idle_connection() {
    idle_ = connection_;
    idle_->cookie = kIdleCookie;
    idle_->source = {"10.77.0.3", 50001};
    idle_->destination = {"10.77.0.4", 40000};
  }
  void sample_idle(int64_t time_ns) {
    sample(time_ns, 0);
    samples_.back().cookie = kIdleCookie;
  }
  void did(WaitKind kind, int64_t from_ns, int64_t to_ns) {
    waits_.push_back({.node_id = kNode,
                      .timestamp_ns = from_ns,
                      .window_ns = to_ns - from_ns,
                      .waited_ns = to_ns - from_ns,
                      .kind = kind,
                      .pid = kPid,
                      .tid = kPid});
  }
  void call(const Collective& row) { calls_.push_back(row); }

  Report report() {
    MemorySource source;
    source.accept(node_);
    source.accept(process_);
    source.accept(connection_);
    if (idle_) {
      source.accept(*idle_);
    }
    for (const auto& row : calls_) {
      source.accept(row);
    }
    for (const auto& row : samples_) {
      source.accept(row);
    }
    for (const auto& row : waits_) {
      source.accept(row);
    }
    return report_of(source);
  }

 private:
  Node node_;
  Process process_;
  Connection connection_;
  std::optional<Connection> idle_;
  std::vector<Collective> calls_;
  std::vector<TcpSample> samples_;
  std::vector<WaitSpan> waits_;
};

constexpr int64_t call_ns(int64_t step) { return kOriginNs + step * kStepNs + kRank * 100 * kNsPerUs; }

/// Computes between all calls; in every `seen`-th gap a sample shows the connection's unread data.
void run(OneNode& node, int64_t steps, uint32_t unread_bytes, int64_t seen = 4) {
  for (int64_t step = 0; step < steps; ++step) {
    node.call(call_of(kRank, step));
    node.did(WaitKind::kOnCpu, call_ns(step) + 5 * kNsPerMs, call_ns(step + 1));
    if (step % seen == 0) {
      node.sample(call_ns(step) + 20 * kNsPerMs, unread_bytes);
    }
  }
}

TEST(SingleNode, DataThatWaitForARankMakeItLate) {
  OneNode node;
  run(node, kSteps, 4096);
  node.call(call_of(kRank, kSteps));
  const Report report = node.report();
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  const Finding& finding = report.findings[0];
  expect_culprit(finding, Cause::kLateRank, kRank);
  // 30 ms of each gap, including those without a sample; without the warm-up.
  EXPECT_NEAR(finding.stall_ms, 97 * 30, 60);
  EXPECT_EQ(finding.evidence[0].kind, "tcp_sample") << "what shows that another rank waits";
  expect_golden_text("late_rank seen from one node", finding);
}

TEST(SingleNode, AnEmptyConnectionBlamesNoRank) {
  OneNode node;
  run(node, kSteps, 0);
  node.call(call_of(kRank, kSteps));
  EXPECT_TRUE(node.report().healthy);
}

TEST(SingleNode, DataOfAnotherServiceBlameNoRank) {
  OneNode node;
  node.connection().thread_name = "loader";
  run(node, kSteps, 4096);
  node.call(call_of(kRank, kSteps));
  EXPECT_TRUE(node.report().healthy);
}

TEST(SingleNode, WhatIsSeenTwiceIsNotInferredOfTheRest) {
  OneNode node;
  run(node, kSteps, 4096, 50);
  node.call(call_of(kRank, kSteps));
  EXPECT_TRUE(node.report().healthy) << reported(node.report());
}

constexpr int64_t phase_ns(int64_t step, int64_t after_ms) { return call_ns(step) + (5 + after_ms) * kNsPerMs; }

/// At each time after the start of a gap data waited in one sampled gap, and not in another one.
TEST(SingleNode, RanksThatAreAheadOfItInSomeGapsDoNotMakeItLate) {
  OneNode node;
  run(node, kSteps, 0, 1000);
  for (int64_t i = 0; i < 10; ++i) {
    node.sample(phase_ns(10 + 8 * i, 9 + 3 * i), 4096);
    node.sample(phase_ns(14 + 8 * i, 9 + 3 * i), 0);
  }
  node.call(call_of(kRank, kSteps));
  EXPECT_TRUE(node.report().healthy) << reported(node.report());
}

/// In some gaps data wait early, by chance; from 25 ms on they do in all.
TEST(SingleNode, TheTimeIsTheOneFromWhichOnMostGapsHaveData) {
  OneNode node;
  run(node, kSteps, 0, 1000);
  for (int64_t i = 0; i < 12; ++i) {
    node.sample(phase_ns(10 + 7 * i, 25), 4096);
    node.sample(phase_ns(12 + 7 * i, 15), 0);
    if (i < 5) {
      node.sample(phase_ns(14 + 7 * i, 5), 4096);
    }
  }
  node.call(call_of(kRank, kSteps));
  const Report report = node.report();
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  expect_culprit(report.findings[0], Cause::kLateRank, kRank);
  EXPECT_NEAR(report.findings[0].stall_ms, 92 * 20 + 5 * 40, 60);
}

/// All connections are sampled one after the other; one of them never has data.
TEST(SingleNode, AnIdleConnectionBesideItProvesNothing) {
  OneNode node;
  node.add_idle_connection();
  run(node, kSteps, 0, 1000);
  for (int64_t i = 0; i < 24; ++i) {
    node.sample_idle(phase_ns(4 + 4 * i, 1 + i) - kNsPerUs);
    node.sample(phase_ns(4 + 4 * i, 1 + i), 4096);
  }
  node.call(call_of(kRank, kSteps));
  const Report report = node.report();
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  expect_culprit(report.findings[0], Cause::kLateRank, kRank);
  EXPECT_GT(report.findings[0].stall_ms, 90 * 40);
}

TEST(SingleNode, ARankThatDoesNotComeIsMissing) {
  OneNode node;
  run(node, kSteps, 0);
  node.sample(kLastArrivalNs + kNsPerSecond, 4096);
  node.did(WaitKind::kBlocked, call_ns(kSteps), kLastArrivalNs + 10 * kNsPerSecond);
  const Report report = node.report();
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  expect_culprit(report.findings[0], Cause::kMissingCollective, kRank);
  EXPECT_NEAR(report.findings[0].stall_ms, 9'000, 10);
  expect_golden_text("missing_collective seen from one node", report.findings[0]);
}

TEST(SingleNode, ARankThatHasNothingToDoIsNotMissing) {
  OneNode node;
  run(node, kSteps, 0);
  EXPECT_TRUE(node.report().healthy);
}

TEST(SingleNode, ADeathWithTheCommunicatorInUseIsReported) {
  OneNode node;
  run(node, kSteps, 0);
  exit_at(node.process(), kLastArrivalNs + 20 * kNsPerMs, 9);
  const Report report = node.report();
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  expect_culprit(report.findings[0], Cause::kDeadRank, kRank);
}

TEST(SingleNode, AfterADeathTheOthersWaitAsLongAsWatchdogsDo) {
  OneNode node;
  node.observe_for(3600 * kNsPerSecond);
  run(node, kSteps, 0);
  exit_at(node.process(), kLastArrivalNs + 20 * kNsPerMs, 11);
  const Report report = node.report();
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  EXPECT_NEAR(report.findings[0].stall_ms, 60'000, 1);
}

TEST(SingleNode, OneThatWasAskedToEndOrHungBeforeIsNoCulprit) {
  OneNode asked;
  run(asked, kSteps, 0);
  exit_at(asked.process(), kLastArrivalNs + 20 * kNsPerMs);  // SIGTERM
  EXPECT_TRUE(asked.report().healthy);

  OneNode victim;
  run(victim, kSteps, 0);
  Collective open = call_of(kRank, kSteps);
  leave_open(open);
  victim.call(open);
  exit_at(victim.process(), open.timestamp_ns + 5 * kNsPerSecond, 9);
  for (const Finding& finding : victim.report().findings) {
    EXPECT_EQ(finding.cause, Cause::kUnknown) << finding.summary;
  }
}

}  // namespace
}  // namespace stalltrace::analysis
