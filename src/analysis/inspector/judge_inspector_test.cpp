// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "analysis/explain.h"
#include "analysis/testing/golden_text.h"
#include "base/clock.h"
#include "model/events/imported/inspector.h"
#include "model/memory_source.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kBegin = int64_t{20'000} * 86'400 * kNsPerSecond;
constexpr CommHash kWorld = 0xabc;

/// AllReduces of four ranks on two hosts, with the duration that the Inspector measured of each.
struct Measured {
  MemorySource source;

  explicit Measured(const std::function<int64_t(int32_t rank, int64_t number)>& duration_us, int64_t instances = 20,
                    int32_t shown = 4, Operation op = Operation::kAllReduce) {
    const CommHash hash = inspector_sequence(kWorld, op);
    for (int32_t rank = 0; rank < shown; ++rank) {
      const auto id = static_cast<NodeId>(rank / 2 + 1);
      Node node{.node_id = id, .name = fmt::format("node{}", rank / 2), .started_ns = kBegin};
      node.agent_version = kInspectorFormat;
      node.missing_evidence = kLacksBegins;
      source.accept(node);
      Communicator comm{.node_id = id, .pid = 100 + rank, .comm_ptr = hash, .comm_id_hash = hash};
      comm.nccl_comm_hash = kWorld;
      comm.rank = rank;
      comm.nranks = 4;
      source.accept(comm);
      for (int64_t number = 0; number < instances; ++number) {
        Collective row;
        row.event_id = make_event_id(id, static_cast<uint64_t>(rank * 1000 + number + 1));
        row.node_id = id;
        row.timestamp_ns = kBegin + number * 100 * kNsPerMs;
        row.duration_ns = duration_us(rank, number) * kNsPerUs;
        row.completion = Completion::kProfiler;
        row.op = op;
        row.seq = number;
        row.rank = rank;
        row.nranks = 4;
        row.comm_id_hash = hash;
        row.comm_ptr = hash;
        row.pid = 100 + rank;
        source.accept(row);
      }
    }
  }

  Report explained() {
    const auto result = explain(source);
    EXPECT_TRUE(result);
    return result ? result->report : Report();
  }
};

TEST(Inspector, TheRankForWhichTheOthersWait) {
  const Report report = Measured([](int32_t rank, int64_t) { return rank == 2 ? 2'000 : 14'000 + rank; }).explained();
  ASSERT_EQ(report.findings.size(), 1U);
  const Finding& finding = report.findings[0];
  EXPECT_EQ(finding.cause, Cause::kLateRank);
  EXPECT_EQ(finding.culprit->rank, 2);
  EXPECT_EQ(finding.culprit->pid, 102);
  EXPECT_EQ(finding.culprit->node, "node1");
  EXPECT_EQ(finding.collectives_affected, 20);
  EXPECT_NEAR(finding.stall_ms, 240, 1);
  EXPECT_EQ(finding.comm_id_hash, kWorld);
  expect_golden_text("inspector: late rank", finding);
}

void expect_nothing(Measured measured) {
  const Report report = measured.explained();
  EXPECT_TRUE(report.findings.empty()) << report.findings[0].summary;
  EXPECT_EQ(report.health(), std::nullopt);
  golden::expect_text(fmt::format("{}", fmt::join(report.notes, "\n")));
}

TEST(Inspector, AJobInStep) {
  expect_nothing(Measured([](int32_t rank, int64_t number) { return 14'000 + 100 * rank + number; }));
  // Another rank comes last each time.
  expect_nothing(Measured([](int32_t rank, int64_t number) { return rank == number % 4 ? 2'000 : 14'000; }));
  // Little is waited for.
  expect_nothing(Measured([](int32_t rank, int64_t) { return rank == 2 ? 20 : 140; }));
  // Two ranks come last together: the transfer is fast, the others have something else.
  expect_nothing(Measured([](int32_t rank, int64_t) { return rank >= 2 ? 2'000 : 14'000; }));
}

/// The root sends into buffers and waits for no other rank; rank 1 is the one that is late, and passes the data on.
TEST(Inspector, TheRootOfABroadcastIsNotLate) {
  const auto small = [](int32_t rank, int64_t) { return rank == 0 ? 20 : rank == 1 ? 60 : 5'000; };
  expect_nothing(Measured(small, 20, 4, Operation::kBroadcast));
  expect_nothing(Measured(small, 20, 4, Operation::kReduce));
}

TEST(Inspector, TooLittleToJudge) {
  const auto late = [](int32_t rank, int64_t) { return rank == 2 ? 2'000 : 14'000; };
  expect_nothing(Measured(late, 9));
  expect_nothing(Measured(late, 20, 3));
}

}  // namespace
}  // namespace stalltrace::analysis
