// SPDX-License-Identifier: Apache-2.0
// Which end links have in common where a node has several ranks.
#include "analysis/causes/network/common_location.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
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

/// Of one hang all links into a node are silent, of another only one of them.
TEST(JoinByEnd, ALinkOfTheNodeBelongsToIt) {
  for (const bool elsewhere : {false, true}) {
    const LoadedJob job(rows_on({1, 2, 2, 3}));
    const Stall first = slow_transfer(job, {kOriginNs, kOriginNs + 10 * kNsPerSecond});
    const Stall second = slow_transfer(job, {kOriginNs + 20 * kNsPerSecond, kOriginNs + 30 * kNsPerSecond});
    FaultLocation node = link(job, 0, 1);
    node.node = 2;
    std::vector<CauseGroup> groups{group_of(job, Cause::kPartition, node, {&first}),
                                   group_of(job, Cause::kPartition, link(job, elsewhere ? 0 : 2, 3), {&second})};
    rule_of(Cause::kPartition).refine(job.context(), groups);
    ASSERT_EQ(groups.size(), elsewhere ? 2U : 1U);
    EXPECT_EQ(groups[0].location.node, NodeId{2});
    EXPECT_EQ(groups[0].stalls.size(), elsewhere ? 1U : 2U);
  }
}

}  // namespace
}  // namespace stalltrace::analysis
