// SPDX-License-Identifier: Apache-2.0
// Which end links have in common: where a node has several ranks, between stalls, and by what a host drops.
#include "analysis/causes/network/common_location.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/testing/loaded_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

/// The small job with the ranks on these nodes.
MemorySource rows_on(const std::array<NodeId, kRanks>& nodes) {
  MemorySource source;
  for (const NodeId node : std::set<NodeId>(nodes.begin(), nodes.end())) {
    source.accept(Node{.node_id = node,
                       .name = "node" + std::to_string(node),
                       .started_ns = kOriginNs,
                       .ended_ns = kOriginNs + kRecordedNs});
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    Process process{.node_id = nodes.at(static_cast<size_t>(rank)), .pid = 10 + rank, .exe = "/opt/job/train"};
    process.rank = rank;
    source.accept(process);
    for (int64_t step = 0; step < kSteps; ++step) {
      Collective call = call_of(rank, step);
      call.node_id = process.node_id;
      call.event_id = make_event_id(call.node_id, static_cast<uint64_t>(step * kRanks + rank + 1));
      source.accept(call);
    }
  }
  return source;
}

MemberIndex member_of(const LoadedJob& job, int rank) {
  const std::vector<Member>& members = job.cluster.members();
  return static_cast<MemberIndex>(std::ranges::find(members, rank, &Member::rank) - members.begin());
}

FaultLocation link(const LoadedJob& job, int src, int dst) {
  return {.src = member_of(job, src), .dst = member_of(job, dst)};
}

FaultLocation blamed(const LoadedJob& job, const std::vector<FaultLocation>& links) {
  FaultLocation location = links.front();
  blame_common_end(job.context(), links, location);
  return location;
}

TEST(CommonEnd, IsTheNodeOfSeveralRanksWithBadLinks) {
  const LoadedJob job(rows_on({1, 2, 2, 3}));
  const FaultLocation location = blamed(job, {link(job, 0, 1), link(job, 2, 3)});
  EXPECT_EQ(location.node, NodeId{2});
  EXPECT_EQ(location.culprit, kNoMember);
  EXPECT_EQ(end_text(job.context(), location), "node2");
}

TEST(CommonEnd, IsTheRankThatAllHave) {
  const LoadedJob job(rows_on({1, 2, 2, 3}));
  const FaultLocation location = blamed(job, {link(job, 0, 1), link(job, 1, 3)});
  EXPECT_EQ(location.culprit, member_of(job, 1));
  EXPECT_FALSE(location.node);
}

TEST(CommonEnd, IsNoneBetweenTheSameTwoNodesOrWithALinkElsewhere) {
  const LoadedJob two(rows_on({1, 2, 2, 1}));
  EXPECT_FALSE(blamed(two, {link(two, 0, 1), link(two, 2, 3)}).at_one_end());
  const LoadedJob four(rows_on({1, 2, 3, 4}));
  EXPECT_FALSE(blamed(four, {link(four, 0, 1), link(four, 2, 3)}).at_one_end());
}

TEST(CommonEnd, IsNotWhatStaysOnTheNode) {
  const LoadedJob job(rows_on({1, 2, 2, 3}));
  EXPECT_FALSE(blamed(job, {link(job, 0, 1), link(job, 2, 1), link(job, 2, 3)}).at_one_end());
}

Interval seconds(int64_t from, int64_t to) { return {kOriginNs + from * kNsPerSecond, kOriginNs + to * kNsPerSecond}; }

/// Of one collective all links of a node are silent, of another one at the same time only one of them.
TEST(JoinByEnd, ALinkOfTheNodeBelongsToItIfItIsOfThatTime) {
  const LoadedJob job(rows_on({1, 2, 2, 3}));
  const Stall hang = slow_transfer(job, seconds(0, 10));
  const Stall same_time = slow_transfer(job, seconds(5, 12));
  const Stall later = slow_transfer(job, seconds(20, 30));
  FaultLocation node = link(job, 0, 1);
  node.node = 2;
  const auto joined = [&](const FaultLocation& other, const Stall& stall) {
    std::vector<CauseGroup> groups{group_of(job, Cause::kPartition, node, {&hang}),
                                   group_of(job, Cause::kPartition, other, {&stall})};
    rule_of(Cause::kPartition).refine(job.context(), groups);
    EXPECT_EQ(groups[0].location.node, NodeId{2});
    return groups.size() == 1 && groups[0].stalls.size() == 2;
  };
  EXPECT_TRUE(joined(link(job, 2, 3), same_time));
  EXPECT_FALSE(joined(link(job, 2, 3), later));
  EXPECT_FALSE(joined(link(job, 0, 3), same_time)) << "elsewhere";
  FaultLocation other_link = link(job, 2, 3);
  other_link.node = 2;
  EXPECT_TRUE(joined(other_link, later)) << "the same end is blamed";
}

/// Each hang shows one silent link: they do not show that the rank they have in common is to blame.
TEST(JoinByEnd, LinksOfSeveralHangsBlameNoRank) {
  const LoadedJob job(rows_on({1, 2, 3, 4}));
  const Stall first = slow_transfer(job, seconds(0, 10));
  const Stall second = slow_transfer(job, seconds(20, 30));
  for (const Cause cause : {Cause::kPartition, Cause::kMtuBlackhole, Cause::kConnectionReset}) {
    std::vector<CauseGroup> groups{group_of(job, cause, link(job, 1, 0), {&first}),
                                   group_of(job, cause, link(job, 1, 2), {&second})};
    rule_of(cause).refine(job.context(), groups);
    ASSERT_EQ(groups.size(), 2U);
    EXPECT_FALSE(groups[0].location.at_one_end());
  }
}

constexpr uint64_t kPeerEnd = 100;  // added to the cookie of a connection's other end

/// A connection from one rank to another, in both recordings.
void connect_ranks(MemorySource& source, const std::array<NodeId, kRanks>& nodes, int from, int to, uint64_t cookie) {
  for (const bool dials : {true, false}) {
    const int own = dials ? from : to;
    const auto end = [&](int rank, int port) {
      return Endpoint{"10.0.0." + std::to_string(nodes.at(static_cast<size_t>(rank))),
                      static_cast<uint16_t>(port + static_cast<int>(cookie))};
    };
    Connection row{.node_id = nodes.at(static_cast<size_t>(own)), .cookie = cookie + (dials ? 0 : kPeerEnd)};
    row.pid = 10 + own;
    row.family = 2;
    row.source = dials ? end(from, 40'000) : end(to, 50'000);
    row.destination = dials ? end(to, 50'000) : end(from, 40'000);
    row.opened_ns = kOriginNs;
    row.thread_name = "NCCL Progress 0";
    source.accept(row);
  }
}

/// What a node's firewall dropped of one of its connections on the way in.
void drop_incoming(MemorySource& source, NodeId node, uint64_t cookie, int64_t time_ns, uint32_t packets) {
  PacketDrop row{.node_id = node, .timestamp_ns = time_ns, .cookie = cookie};
  row.incoming = true;
  row.reason = "NETFILTER_DROP";
  row.packets = packets;
  row.bytes = uint64_t{packets} * 1'000;
  source.accept(row);
}

void retransmit(MemorySource& source, NodeId node, int rank, uint64_t cookie, int64_t time_ns) {
  TcpEvent event{.event_id = make_event_id(node, 5'000 + cookie), .node_id = node, .event = TcpEventKind::kRetransmit};
  event.pid = 10 + rank;
  event.cookie = cookie;
  event.timestamp_ns = time_ns;
  event.len = 5'000;
  source.accept(event);
}

CauseGroup lossy_link(const LoadedJob& job, int src, int dst, FlowIndex flow, const Stall& stall) {
  FaultLocation location = link(job, src, dst);
  location.flow = flow;
  CauseGroup group = group_of(job, Cause::kPacketLoss, location, {&stall});
  group.flows = {flow};
  return group;
}

/// Rank 2 receives data of rank 1, and rank 3 acknowledgements of rank 0: of both, node 2 drops packets.
TEST(DroppingHost, OfTwoNodesIsOneThatDropsOfAllItsRanksReceive) {
  constexpr std::array<NodeId, kRanks> kNodes{1, 1, 2, 2};
  for (const uint32_t acknowledgements : {0U, 1U, 5U}) {
    MemorySource source = rows_on(kNodes);
    connect_ranks(source, kNodes, 1, 2, 1);
    connect_ranks(source, kNodes, 3, 0, 2);
    retransmit(source, 1, 1, 1, kOriginNs + kNsPerSecond);
    drop_incoming(source, 2, 1 + kPeerEnd, kOriginNs + kNsPerSecond, 10);
    if (acknowledgements > 0) {
      drop_incoming(source, 2, 2, kOriginNs + kNsPerSecond, acknowledgements);
    }
    const LoadedJob job(std::move(source));
    const Stall stall = slow_transfer(job, seconds(0, 10));
    std::vector<CauseGroup> groups{lossy_link(job, 1, 2, job.flows.find(1, 1), stall)};
    rule_of(Cause::kPacketLoss).refine(job.context(), groups);
    ASSERT_EQ(groups.size(), 1U);
    EXPECT_EQ(groups[0].location.at_one_end(), acknowledgements > 1) << acknowledgements;
    EXPECT_TRUE(acknowledgements <= 1 || groups[0].location.node == NodeId{2});
  }
}

/// The second link lost too little to show by itself that the two have an end in common.
TEST(DroppingHost, IsOneFindingForAllItsLinks) {
  constexpr std::array<NodeId, kRanks> kNodes{1, 2, 3, 4};
  MemorySource source = rows_on(kNodes);
  connect_ranks(source, kNodes, 1, 2, 1);
  connect_ranks(source, kNodes, 3, 2, 2);
  retransmit(source, 2, 1, 1, kOriginNs + kNsPerSecond);
  retransmit(source, 4, 3, 2, kOriginNs + 20 * kNsPerSecond + kNsPerMs);
  for (const int64_t time_ns : {kOriginNs + kNsPerSecond, kOriginNs + 20 * kNsPerSecond + kNsPerMs}) {
    drop_incoming(source, 3, 1 + kPeerEnd, time_ns, 10);
    drop_incoming(source, 3, 2 + kPeerEnd, time_ns, 10);
  }
  const LoadedJob job(std::move(source));
  const Stall much = slow_transfer(job, seconds(0, 10));
  const Stall little = slow_transfer(job, seconds(20, 21));
  std::vector<CauseGroup> groups{lossy_link(job, 3, 2, job.flows.find(4, 2), little),
                                 lossy_link(job, 1, 2, job.flows.find(2, 1), much)};
  rule_of(Cause::kPacketLoss).refine(job.context(), groups);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].location.culprit, member_of(job, 2));
  EXPECT_EQ(groups[0].location.src, member_of(job, 1)) << "the link that lost most is the example";
  EXPECT_EQ(groups[0].stalls.size(), 2U);
}

}  // namespace
}  // namespace stalltrace::analysis
