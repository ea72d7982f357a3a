// SPDX-License-Identifier: Apache-2.0
// Error counters that rose with the stalls, and those that prove nothing: of an idle port, always, everywhere.
#include <gtest/gtest.h>

#include "analysis/testing/fabric_job.h"
#include "analysis/testing/golden_text.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

TEST(FabricErrors, ThePortThatCountsErrorsIsNamed) {
  MemorySource source = fabric_job({{node_of_rank(3), "symbol_error", 0, 300}});
  const Finding finding = only(source);
  expect_culprit(finding, Cause::kFabricErrors, 3);
  EXPECT_GT(evidence_of(finding, "port_counter").count, 300);
  expect_golden_text("fabric_errors", finding);
}

TEST(FabricErrors, AnIdlePortsErrorsAreNoCause) {
  MemorySource source;
  fill(source, slow());
  add_ports(source, {node_of_rank(0), node_of_rank(1), node_of_rank(2)});
  add_counter(source, {node_of_rank(3), "symbol_error", 0, 300});
  EXPECT_EQ(only(source).cause, Cause::kUnknown);
}

TEST(FabricErrors, ACounterThatAlwaysRisesIsNone) {
  MemorySource source = fabric_job({{node_of_rank(3), "symbol_error", 300, 300}});
  EXPECT_EQ(only(source).cause, Cause::kUnknown);
  MemorySource faster = fabric_job({{node_of_rank(3), "symbol_error", 300, 3000}});
  expect_culprit(only(faster), Cause::kFabricErrors, 3);
}

TEST(FabricErrors, CountersThatRiseEverywhereBlameNoRank) {
  MemorySource source = fabric_job(everywhere("symbol_error", 0, 300));
  EXPECT_EQ(only(source).cause, Cause::kUnknown);
}

TEST(FabricErrors, PacketsOutOfSequenceAreNone) {
  for (const char* name : {"out_of_sequence", "duplicate_request"}) {
    MemorySource source = fabric_job({{node_of_rank(3), name, 0, 3000}});
    EXPECT_EQ(only(source).cause, Cause::kUnknown) << name;
  }
}

TEST(FabricErrors, WithoutCountersThereIsNothing) {
  MemorySource source;
  fill(source, slow());
  EXPECT_EQ(only(source).cause, Cause::kUnknown);
}

TEST(FabricErrors, WithNothingToCompareWithThereIsNoCause) {
  MemorySource source;
  fill(source, slow());
  for (int64_t second = 2; second <= kSteps * kStepNs / kNsPerSecond; ++second) {  // the agent began in the stalls
    for (const char* name : {"port_xmit_data", "symbol_error"}) {
      source.accept(PortCounter{node_of_rank(3), kOriginNs + second * kNsPerSecond, "mlx5_0", 1, name,
                                300 * static_cast<uint64_t>(second)});
    }
  }
  EXPECT_EQ(only(source).cause, Cause::kUnknown);
  add_ports(source, {node_of_rank(0)});  // another node's port, which counts no errors
  expect_culprit(only(source), Cause::kFabricErrors, 3);
}

/// Ranks 0 to 7 on the first node, 8 to 15 on the second.
MemorySource job_of_two_nodes() {
  constexpr int kPerNode = 8;
  MemorySource source;
  for (const NodeId id : {node_of_rank(0), node_of_rank(1)}) {
    source.accept(Node{.node_id = id,
                       .name = "node" + std::to_string(id - 1),
                       .boot_id = "boot",
                       .started_ns = kOriginNs,
                       .ended_ns = kOriginNs + kRecordedNs});
  }
  for (int rank = 0; rank < 2 * kPerNode; ++rank) {
    const NodeId node = node_of_rank(rank / kPerNode);
    Process process{.node_id = node, .pid = 10 + rank, .exe = "/opt/job/train"};
    process.rank = rank;
    source.accept(process);
    for (int64_t step = 0; step < kSteps; ++step) {
      Collective call = call_of(rank, step);
      call.node_id = node;
      call.event_id = make_event_id(node, static_cast<uint64_t>(rank * kSteps + step + 1));
      call.timestamp_ns = begin_of(step) + rank * 10 * kNsPerUs;
      call.duration_ns = step >= kSlowFrom ? kSlowNs : 5 * kNsPerMs;
      call.nranks = 2 * kPerNode;
      source.accept(call);
    }
  }
  add_ports(source, {node_of_rank(0), node_of_rank(1)});
  return source;
}

TEST(FabricErrors, OfEightRanksOnANodeNoneIsBlamedButTheNode) {
  MemorySource source = job_of_two_nodes();
  add_counter(source, {node_of_rank(1), "symbol_error", 0, 300});
  add_counter(source, {node_of_rank(1), "link_error_recovery", 0, 40, "mlx5_1"});  // an idle port of the same node
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kFabricErrors);
  ASSERT_TRUE(finding.culprit.has_value());
  EXPECT_EQ(finding.culprit->node, "node1");
  EXPECT_EQ(finding.culprit->rank, std::nullopt);
  EXPECT_NE(finding.summary.find("mlx5_0 port 1 symbol_error"), std::string::npos) << finding.summary;
}

}  // namespace
}  // namespace stalltrace::analysis
