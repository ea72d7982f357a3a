// SPDX-License-Identifier: Apache-2.0
// Steps at both ends of a link: which side waited, and what the link held; and the result of explain for profiler files
// alone.
#include "analysis/evidence/step_evidence.h"

#include <gtest/gtest.h>

#include <functional>

#include "analysis/evidence/wait_graph.h"
#include "analysis/testing/golden_text.h"
#include "analysis/testing/ring_job.h"
#include "analysis/testing/small_job.h"
#include "analysis/timeline/communicators/communicator_names.h"
#include "model/events/imported/inspector.h"

namespace stalltrace::analysis {
namespace {

constexpr int kRanks = 4;
constexpr int64_t kMs = kNsPerMs;
constexpr int64_t kStall = 1000 * kMs;  // start of the stalls in these tests
constexpr CommHash kComm = 9;

using small_job::node_of_rank;

ProxyStep row_of(int rank, int peer, bool is_send, int64_t from_ms, int64_t length_ms) {
  ProxyStep row{.node_id = node_of_rank(rank), .timestamp_ns = from_ms * kMs, .duration_ns = length_ms * kMs};
  row.comm_id_hash = kComm;
  row.pid = 10 + rank;
  row.rank = rank;
  row.peer = peer;
  row.is_send = is_send;
  return row;
}

/// Rank 2 waits for chunk `step` of rank 1 for 200 ms.
ProxyStep awaited(int32_t step) {
  ProxyStep row = row_of(2, 1, false, 1000, 201);
  row.step = step;
  row.network_wait_ns = 200 * kMs;
  return row;
}
ProxyStep sent(int32_t step, int64_t gpu_ms, int64_t peer_ms, int64_t network_ms) {
  ProxyStep row = row_of(1, 2, true, 1001, 200);
  row.step = step;
  row.gpu_wait_ns = gpu_ms * kMs;
  row.peer_wait_ns = peer_ms * kMs;
  row.network_wait_ns = network_ms * kMs;
  return row;
}

class Steps : public ::testing::Test {
 protected:
  void describe(bool one_host = true) {
    for (int rank = 0; rank < kRanks; ++rank) {
      source_.accept(Node{.node_id = node_of_rank(rank),
                          .name = "node" + std::to_string(rank),
                          .boot_id = one_host ? "boot" : "boot" + std::to_string(rank)});
      source_.accept(Communicator{.node_id = node_of_rank(rank),
                                  .pid = 10 + rank,
                                  .comm_ptr = 1,
                                  .comm_id_hash = kComm,
                                  .nccl_comm_hash = kComm,
                                  .rank = rank,
                                  .rank_source = RankSource::kPlugin,
                                  .nranks = kRanks});
    }
  }
  std::vector<LinkWait> waits() {
    cluster_ = *Cluster::load(source_);
    EXPECT_TRUE(Timeline::load(source_, *cluster_));  // it aligns the clocks
    const Result<StepEvidence> evidence = StepEvidence::load(source_, *cluster_, IntervalSet({kAround}));
    EXPECT_TRUE(evidence.has_value());
    return evidence->waits(*cluster_, {0, 1, 2, 3}, kWindow);
  }
  /// The only wait.
  LinkWait wait() {
    const std::vector<LinkWait> all = waits();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? LinkWait{} : all[0];
  }
  /// A ring in which each rank waits for chunk 5 of its predecessor, and each sender for the GPU; `change` modifies
  /// rank 1's sending.
  WaitGraph graph_of_ring(const std::function<void(ProxyStep& sending)>& change) {
    describe();
    for (int rank = 0; rank < kRanks; ++rank) {
      const int next = (rank + 1) % kRanks;
      ProxyStep receiving = row_of(next, rank, false, 1000, 201);
      receiving.step = 5;
      receiving.network_wait_ns = 200 * kMs;
      source_.accept(receiving);
      ProxyStep sending = row_of(rank, next, true, 1000, 201);
      sending.step = 5;
      sending.gpu_wait_ns = 200 * kMs;
      if (rank == 1) {
        change(sending);
      }
      source_.accept(sending);
    }
    cluster_ = *Cluster::load(source_);
    const Flows flows = *Flows::load(source_, *cluster_);
    const EvidenceStore evidence = *EvidenceStore::load(source_, *cluster_, flows, {kWindow});
    return build_wait_graph(*cluster_, flows, evidence, {0, 1, 2, 3}, kWindow);
  }

  static constexpr Interval kWindow{kStall, kStall + 200 * kMs};
  static constexpr Interval kAround{kStall - 500 * kMs, kStall + 700 * kMs};
  MemorySource source_;
  std::optional<Cluster> cluster_;
};

TEST_F(Steps, ASenderThatHasNotComeToTheChunkIsBehind) {
  describe();
  source_.accept(awaited(5));
  source_.accept(sent(5, 199, 0, 1));
  const LinkWait reported = wait();
  EXPECT_EQ(reported.kind, LinkWaitKind::kSenderBehind);
  EXPECT_EQ(reported.src, 1);
  EXPECT_EQ(reported.dst, 2);
  EXPECT_NEAR(static_cast<double>(reported.covered_ns), 199e6, 2e6);
}

TEST_F(Steps, AChunkThatItsSenderIsBeyondIsUnderWay) {
  describe();
  source_.accept(awaited(5));
  source_.accept(sent(8, 199, 0, 1));
  const LinkWait reported = wait();
  EXPECT_EQ(reported.kind, LinkWaitKind::kInFlight);
  EXPECT_NEAR(static_cast<double>(reported.covered_ns), 184e6, 2e6)
      << "it may have been handed over 15 ms after the next was begun";
}

TEST_F(Steps, AChunkThatTheNetworkDoesNotTakeIsUnderWay) {
  describe();
  source_.accept(awaited(5));
  source_.accept(sent(5, 1, 0, 198));
  EXPECT_EQ(wait().kind, LinkWaitKind::kInFlight);
}

TEST_F(Steps, ASenderWithoutRoomWaitsForTheReceiver) {
  describe();
  source_.accept(row_of(2, 1, false, 1000, 1));
  source_.accept(sent(5, 1, 198, 0));
  EXPECT_EQ(wait().kind, LinkWaitKind::kReceiverBehind);
}

TEST_F(Steps, WhatWasAllHandedOverIsUnderWayUntilItArrived) {
  describe();
  source_.accept(awaited(5));
  ProxyStep operation = row_of(1, 2, true, 995, 20);
  operation.steps = 8;
  source_.accept(operation);
  const LinkWait reported = wait();
  EXPECT_EQ(reported.kind, LinkWaitKind::kInFlight);
  EXPECT_NEAR(static_cast<double>(reported.covered_ns), 185e6, 1e6);
}

TEST_F(Steps, ASenderThatHasNotBegunIsBehind) {
  describe();
  source_.accept(row_of(1, 2, true, 800, 10));  // an earlier operation
  source_.accept(awaited(0));
  EXPECT_EQ(wait().kind, LinkWaitKind::kSenderBehind);
}

TEST_F(Steps, TheFirstOfARunStandsForThoseBehindIt) {
  describe();
  source_.accept(awaited(5));
  ProxyStep earlier = sent(2, 30, 0, 0);
  earlier.timestamp_ns -= 10 * kMs;
  earlier.duration_ns = 30 * kMs;
  source_.accept(earlier);  // steps 3 to 9 have no rows, however long they waited
  source_.accept(sent(10, 199, 0, 1));
  EXPECT_EQ(wait().kind, LinkWaitKind::kUndecided);
}

TEST_F(Steps, AnEarlierOperationOfTheSenderHandedNothingOverOfThisOne) {
  describe();
  ProxyStep earlier = row_of(1, 2, true, 980, 15);
  earlier.steps = 8;
  source_.accept(earlier);
  ProxyStep received = row_of(2, 1, false, 980, 19);
  received.steps = 8;
  source_.accept(received);
  source_.accept(awaited(0));
  EXPECT_EQ(wait().kind, LinkWaitKind::kUndecided);
}

TEST_F(Steps, WithoutTheSendersFileNoLinkIsNamed) {
  describe();
  source_.accept(awaited(5));
  EXPECT_EQ(wait().kind, LinkWaitKind::kUndecided);
}

TEST_F(Steps, EndsWhoseClocksCannotBeComparedSayNothing) {
  describe(false);
  for (int rank = 0; rank < kRanks; ++rank) {  // no two ranks took part in one
    Collective call = small_job::call_of(rank, 0, kComm + 1 + static_cast<CommHash>(rank));
    call.timestamp_ns = kStall;
    source_.accept(call);
  }
  source_.accept(awaited(5));
  source_.accept(sent(8, 199, 0, 1));
  EXPECT_EQ(wait().kind, LinkWaitKind::kUndecided);
}

TEST_F(Steps, OpenWaitsLastUntilTheNextRecord) {
  describe();
  ProxyStep open = awaited(5);
  open.duration_ns.reset();
  open.waits_for = ProxyWait::kNetwork;
  source_.accept(open);
  ProxyStep sending = sent(7, 0, 0, 0);
  sending.duration_ns.reset();
  sending.waits_for = ProxyWait::kGpu;
  source_.accept(sending);
  EXPECT_EQ(wait().kind, LinkWaitKind::kInFlight);
}

TEST_F(Steps, TheGraphEndsAtTheLinkThatHoldsTheData) {
  const WaitGraph graph = graph_of_ring([](ProxyStep& sending) { sending.step = 8; });
  ASSERT_EQ(graph.links.size(), 1U);
  EXPECT_EQ(graph.links[0].awaited, 1);
  EXPECT_EQ(graph.links[0].waiter, 2);
  EXPECT_TRUE(graph.sinks.empty());
  EXPECT_FALSE(graph.deadlock);
}

/// Nothing is known about the chunk that rank 2 waits for.
TEST_F(Steps, ARankThatMayWaitForItsLinkIsNoSink) {
  const WaitGraph graph = graph_of_ring([](ProxyStep& sending) { sending.gpu_wait_ns = 0; });
  EXPECT_TRUE(graph.sinks.empty());
  EXPECT_TRUE(graph.links.empty());
  EXPECT_FALSE(graph.deadlock);
}

/// The small job of other tests as its profiler files report it: a ring without kernel evidence.
struct BoxedJob {
  std::function<void(int64_t step, int rank, Collective& call)> change = [](int64_t, int, Collective&) {};
  std::function<void(int64_t step, int rank, std::vector<ProxyStep>& rows)> steps = [](int64_t, int,
                                                                                       std::vector<ProxyStep>&) {};
  std::function<void(MemorySource& source)> more = [](MemorySource&) {};

  Report explained() const {
    MemorySource source;
    small_job::Ending ending;
    ending.call = [&](int rank, int64_t step, Collective& call) {
      call.completion = Completion::kProfiler;
      call.rank_source = RankSource::kPlugin;
      change(step, rank, call);
      return true;
    };
    small_job::fill(source, ending);
    for (int rank = 0; rank < kRanks; ++rank) {
      source.accept(Communicator{.node_id = node_of_rank(rank),
                                 .pid = 10 + rank,
                                 .comm_ptr = small_job::kHash,
                                 .comm_id_hash = small_job::kHash,
                                 .nccl_comm_hash = small_job::kHash,
                                 .rank = rank,
                                 .rank_source = RankSource::kPlugin,
                                 .nranks = kRanks,
                                 .created_ns = small_job::kOriginNs - kNsPerSecond});
    }
    for (int64_t step = 0; step < small_job::kSteps; ++step) {
      for (int rank = 0; rank < kRanks; ++rank) {
        std::vector<ProxyStep> rows;
        steps(step, rank, rows);
        for (ProxyStep& row : rows) {
          row.comm_id_hash = small_job::kHash;
          row.timestamp_ns += small_job::kOriginNs + step * small_job::kStepNs - 1000 * kMs;
          source.accept(row);
        }
      }
    }
    more(source);
    return small_job::report_of(source);
  }
};

bool stalled(int64_t step) { return step % 20 == 19; }

/// In each stall every rank waits for chunk 3 of its predecessor; rank 2 has reached chunk `step_of_rank_2`.
Report report_of_stalled_ring(
    int32_t step_of_rank_2, const std::function<void(MemorySource&)>& more = [](MemorySource&) {}) {
  BoxedJob job;
  job.more = more;
  job.change = [](int64_t step, int, Collective& call) {
    call.duration_ns = stalled(step) ? 45 * kMs * 6 : *call.duration_ns;
  };
  job.steps = [=](int64_t step, int rank, std::vector<ProxyStep>& rows) {
    const int64_t length_ms = stalled(step) ? 265 : 4;
    ProxyStep receiving = row_of(rank, (rank + 3) % kRanks, false, 1001, length_ms);
    receiving.step = 3;
    receiving.network_wait_ns = (length_ms - 1) * kMs;
    ProxyStep sending = row_of(rank, (rank + 1) % kRanks, true, 1001, length_ms);
    sending.step = rank == 2 ? step_of_rank_2 : 3;
    sending.gpu_wait_ns = (length_ms - 1) * kMs;
    rows = {receiving, sending};
  };
  return job.explained();
}

TEST(ProfilerFilesAlone, ALinkThatHoldsDataIsNamedASlowOneWithWhatIsNotKnown) {
  const Report report = report_of_stalled_ring(6);
  ASSERT_EQ(report.findings.size(), 1U) << small_job::reported(report);
  small_job::expect_link(report.findings[0], Cause::kSlowLink, 2, 3);
  EXPECT_LE(report.findings[0].confidence, 0.7);
  EXPECT_FALSE(report.findings[0].culprit);
  expect_golden_text("slow_link by steps", report.findings[0]);
}

/// The kernel recorded a connection between the two ranks. It is better evidence, if it may carry these calls.
TEST(ProfilerFilesAlone, AConnectionOfAnotherCommunicatorIsNoBetterEvidence) {
  constexpr CommHash kOther = 78;
  for (const CommHash carried : {small_job::kHash, kOther}) {
    const Report report = report_of_stalled_ring(6, [carried](MemorySource& source) {
      small_job::connect(source);
      small_job::add_communicator(source, kOther);
      small_job::attribute(source, 2, small_job::kOut, carried);
    });
    ASSERT_EQ(report.findings.size(), 1U) << small_job::reported(report);
    EXPECT_EQ(report.findings[0].cause, carried == kOther ? Cause::kSlowLink : Cause::kUnknown);
  }
}

TEST(ProfilerFilesAlone, WhereEverySenderIsBehindNoLinkIsBlamed) {
  const Report report = report_of_stalled_ring(3);
  ASSERT_EQ(report.findings.size(), 1U) << small_job::reported(report);
  EXPECT_EQ(report.findings[0].cause, Cause::kUnknown);
}

TEST(ProfilerFilesAlone, ARankThatArrivesLastIsNamedByItsArrivals) {
  BoxedJob job;
  job.change = [](int64_t step, int rank, Collective& call) {
    if (stalled(step)) {
      const int64_t late_ns = 200 * kMs;
      call.timestamp_ns += rank == 1 ? late_ns : 0;
      call.duration_ns = 5 * kMs + (rank == 1 ? 0 : late_ns);
    }
  };
  const Report report = job.explained();
  ASSERT_EQ(report.findings.size(), 1U) << small_job::reported(report);
  const Finding& finding = report.findings[0];
  small_job::expect_culprit(finding, Cause::kLateRank, 1);
  EXPECT_LE(finding.confidence, 0.7);
  expect_golden_text("late_rank by arrival", finding);
}

TEST(ProfilerFilesAlone, NodesWithProbesAndNodesWithFilesAloneAreOneJob) {
  MemorySource source;
  small_job::Ending ending;
  ending.call = [](int rank, int64_t, Collective& call) {
    call.comm_id_hash = rank < 2 ? small_job::kHash : 4242;  // NCCL's own hash
    return true;
  };
  small_job::fill(source, ending);
  for (int rank = 0; rank < kRanks; ++rank) {
    Communicator row{.node_id = node_of_rank(rank), .pid = 10 + rank, .comm_ptr = small_job::kHash};
    row.comm_id_hash = rank < 2 ? small_job::kHash : 4242;
    row.nccl_comm_hash = 4242;
    row.rank = rank;
    row.nranks = kRanks;
    source.accept(row);
  }
  Result<CommonNames> names = CommonNames::read(source);
  ASSERT_TRUE(names && names->needed());
  EXPECT_TRUE(names->collectives({}, [](const Collective& row) { EXPECT_EQ(row.comm_id_hash, small_job::kHash); }));
  const Report report = small_job::report_of(source);
  EXPECT_TRUE(report.healthy) << small_job::reported(report);
  for (const std::string& note : report.notes) {
    EXPECT_EQ(note.find("recorded"), std::string::npos) << note;
  }
}

/// NCCL's Inspector gives each operation a sequence of its own: that is no name of the communicator.
TEST(CommonNames, OfACommunicatorIsNoneThatAnOperationHas) {
  constexpr CommHash kNccl = 4242;
  MemorySource source;
  const auto add = [&](NodeId id, std::string_view version, CommHash name) {
    Node node{.node_id = id, .name = "node"};
    node.agent_version = version;
    source.accept(node);
    Communicator row{.node_id = id, .pid = 1, .comm_ptr = name, .comm_id_hash = name};
    row.nccl_comm_hash = kNccl;
    source.accept(row);
  };
  add(1, "", small_job::kHash);
  add(2, "nccl_log", kNccl);
  add(3, kInspectorFormat, inspector_sequence(kNccl, Operation::kAllReduce));
  Result<CommonNames> names = CommonNames::read(source);
  ASSERT_TRUE(names);
  const Result<std::vector<Communicator>> rows = names->communicators();
  ASSERT_TRUE(rows);
  for (const Communicator& row : *rows) {
    EXPECT_EQ(row.comm_id_hash, row.node_id == 3 ? inspector_sequence(kNccl, Operation::kAllReduce) : small_job::kHash)
        << row.node_id;
  }
}

}  // namespace
}  // namespace stalltrace::analysis
