// SPDX-License-Identifier: Apache-2.0
#include "analysis/evidence/wait_graph.h"

#include <gtest/gtest.h>

#include "analysis/timeline/timeline.h"
#include "model/memory_source.h"

namespace stalltrace::analysis {
namespace {

/// Three ranks in a ring, each recorded on its own node; `fill` sets the samples of a rank's outgoing (cookie 1) and
/// incoming (cookie 2) connection.
WaitGraph graph_of(void (*fill)(int rank, TcpSample& outgoing, TcpSample& incoming),
                   const std::function<bool(const Flow&)>& counts = {}) {
  MemorySource source;
  for (int rank = 0; rank < 3; ++rank) {
    const auto node = static_cast<NodeId>(rank + 1);
    source.accept(Node{.node_id = node, .name = "n", .boot_id = "boot"});
    source.accept(
        Communicator{.node_id = node, .pid = 10 + rank, .comm_ptr = 1, .comm_id_hash = 9, .rank = rank, .nranks = 3});
    const auto address = [](int of) { return "10.0.0." + std::to_string((of + 3) % 3); };
    source.accept(Connection{.node_id = node,
                             .cookie = 1,
                             .pid = 10 + rank,
                             .source = {address(rank), 1},
                             .destination = {address(rank + 1), 2}});
    source.accept(Connection{.node_id = node,
                             .cookie = 2,
                             .pid = 10 + rank,
                             .source = {address(rank), 2},
                             .destination = {address(rank - 1), 1}});
    for (int64_t at = 0; at < 10; ++at) {
      TcpSample outgoing{.node_id = node, .timestamp_ns = at * 100 * kNsPerMs, .cookie = 1, .pid = 10 + rank};
      outgoing.bytes_acked = 1000;
      outgoing.snd_wnd = 65536;
      TcpSample incoming = outgoing;
      incoming.cookie = 2;
      incoming.bytes_acked = 0;  // it never sends
      fill(rank, outgoing, incoming);
      source.accept(outgoing);
      source.accept(incoming);
    }
  }
  Result<Cluster> cluster = Cluster::load(source);
  EXPECT_TRUE(cluster.has_value());
  const Result<Flows> flows = Flows::load(source, *cluster);
  const Interval window{0, kNsPerSecond};
  const Result<EvidenceStore> evidence = EvidenceStore::load(source, *cluster, *flows, {window});
  EXPECT_TRUE(evidence.has_value());
  return build_wait_graph(*cluster, *flows, *evidence, {0, 1, 2}, window, counts);
}

TEST(WaitGraph, EndsAtTheRankThatNeitherReadsNorSends) {
  const WaitGraph graph = graph_of([](int rank, TcpSample& outgoing, TcpSample& incoming) {
    if (rank == 0) {  // sends to rank 1, which does not read
      outgoing.unacked_bytes = 5000;
      outgoing.notsent_bytes = 5000;
      outgoing.snd_wnd = 0;
    }
    incoming.unread_bytes = rank == 1 ? 60'000 : 0;
  });
  EXPECT_EQ(graph.sinks, std::vector<MemberIndex>{1});
  EXPECT_FALSE(graph.deadlock);
}

TEST(WaitGraph, ARingThatWaitsForItselfIsADeadlock) {
  const WaitGraph graph = graph_of([](int, TcpSample&, TcpSample&) {});
  EXPECT_EQ(graph.edges.size(), 3U);
  EXPECT_TRUE(graph.sinks.empty());
  EXPECT_TRUE(graph.deadlock);
}

TEST(WaitGraph, LossIsAnEdgeOfItsOwn) {
  const WaitGraph graph = graph_of([](int rank, TcpSample& outgoing, TcpSample&) {
    if (rank == 2) {
      outgoing.unacked_bytes = 5000;
      outgoing.ca_state = 4;
    }
  });
  int losses = 0;
  for (const WaitEdge& edge : graph.edges) {
    losses += edge.reason == WaitReason::kLoss ? 1 : 0;
  }
  EXPECT_EQ(losses, 1);
}

TEST(WaitGraph, HasNoEdgesOfConnectionsThatDoNotCount) {
  const WaitGraph graph =
      graph_of([](int, TcpSample&, TcpSample&) {}, [](const Flow& flow) { return flow.owner != MemberIndex{1}; });
  EXPECT_EQ(graph.edges.size(), 2U);
  EXPECT_FALSE(graph.deadlock);
}

}  // namespace
}  // namespace stalltrace::analysis
