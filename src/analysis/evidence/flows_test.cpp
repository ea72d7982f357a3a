// SPDX-License-Identifier: Apache-2.0
// Who is at the ends of connections, and which of them carry collectives.
#include "analysis/evidence/flows.h"

#include <gtest/gtest.h>

#include <optional>

#include "analysis/testing/ring_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

struct Joined {
  explicit Joined(MemorySource& source) : cluster(*Cluster::load(source)), timeline(*Timeline::load(source, cluster)) {
    flows = *Flows::load(source, cluster);
  }
  [[nodiscard]] const Flow& flow(int rank, uint64_t cookie) const {
    return flows.flow(flows.find(node_of_rank(rank), cookie));
  }

  Cluster cluster;
  Timeline timeline;
  Flows flows;
};

Connection connection_of(int rank, uint64_t cookie, const std::string& destination, const std::string& thread) {
  Connection row{.node_id = node_of_rank(rank), .cookie = cookie, .pid = 10 + rank, .family = 2};
  row.source = {"10.77.0." + std::to_string(rank + 1), 33'000};
  row.destination = {destination, 29'500};
  row.opened_ns = kOriginNs;
  row.thread_name = thread;
  return row;
}

TEST(Flows, TheTwoEndsOfAConnectionFindEachOther) {
  MemorySource source;
  fill(source, {});
  connect(source);
  const Joined job(source);
  for (int rank = 0; rank < kRanks; ++rank) {
    const int next = (rank + 1) % kRanks;
    const Flow& out = job.flow(rank, kOut);
    ASSERT_NE(out.reverse, kNoFlow);
    EXPECT_EQ(out.src_rank, rank);
    EXPECT_EQ(out.dst_rank, next);
    EXPECT_EQ(&job.flows.flow(out.reverse), &job.flow(next, kIn));
    EXPECT_EQ(job.flow(next, kIn).dst_rank, rank);
  }
}

/// Rank 0's connection and one of another rank with the same ends, each open from second to second.
const Flow& first_of_two(MemorySource& source, std::optional<Joined>& job, TimeRange first, TimeRange other, int rank,
                         const std::string& address) {
  fill(source, {});
  const auto add = [&](int of, uint64_t cookie, uint16_t from, uint16_t to, TimeRange open) {
    Connection row = connection_of(of, cookie, address, "python3");
    row.source = {address, from};
    row.destination = {address, to};
    row.opened_ns = kOriginNs + open.from_ns * kNsPerSecond;
    row.closed_ns = kOriginNs + open.to_ns * kNsPerSecond;
    source.accept(row);
  };
  add(0, 90, 33'000, 29'500, first);
  add(rank, 91, 29'500, 33'000, first);
  add(rank, 92, 29'500, 33'000, other);
  job.emplace(source);
  return job->flow(0, 90);
}

TEST(Flows, OfPortsUsedAgainTheEndThatWasOpenAtTheSameTimeIsTheOther) {
  MemorySource source;
  std::optional<Joined> job;
  const Flow& flow = first_of_two(source, job, {1, 10}, {12, 30}, 1, "10.77.0.9");
  ASSERT_NE(flow.reverse, kNoFlow);
  EXPECT_EQ(job->flows.flow(flow.reverse).cookie, 91U);
}

TEST(Flows, ALoopbackConnectionHasNoEndOnAnotherNode) {
  ASSERT_NE(node_of_rank(0), node_of_rank(1));
  MemorySource source;
  std::optional<Joined> job;
  const Flow& flow = first_of_two(source, job, {1, 10}, {1, 10}, 1, "127.0.0.1");
  EXPECT_EQ(flow.reverse, kNoFlow);
}

TEST(Flows, AnEndThatWasNotRecordedIsKnownByItsAddress) {
  MemorySource source;
  fill(source, {});
  connect(source);
  source.accept(connection_of(0, 90, "10.77.0.3", "NCCL Progress 0"));
  source.accept(connection_of(0, 91, "10.99.0.9", "NCCL Progress 0"));
  const Joined job(source);
  EXPECT_EQ(job.flow(0, 90).dst_rank, 2);
  EXPECT_EQ(job.flow(0, 90).reverse, kNoFlow);
  EXPECT_EQ(job.flow(0, 91).peer, kNoMember);
}

TEST(Flows, WhereNetworkThreadsHaveConnectionsOthersCarryNoCollectives) {
  MemorySource source;
  fill(source, {});
  connect(source);
  source.accept(connection_of(0, 90, "10.99.0.9", "python3"));
  const Joined job(source);
  EXPECT_TRUE(job.flow(0, kOut).carries_collectives);
  EXPECT_FALSE(job.flow(0, kAlive).carries_collectives) << "RAS keeps it alive";
  EXPECT_FALSE(job.flow(0, 90).carries_collectives);
}

TEST(Flows, ALocalStrangerCarriesNoCollectives) {
  for (const std::string address : {"127.0.0.1", "0:0:0:0:0:0:0:1", "10.99.0.9"}) {
    MemorySource source;
    fill(source, {});
    source.accept(connection_of(0, 90, address, "python3"));
    EXPECT_EQ(Joined(source).flow(0, 90).carries_collectives, address == "10.99.0.9") << address;
  }
}

TEST(Flows, AreThoseOfTheirOwners) {
  MemorySource source;
  fill(source, {});
  connect(source);
  const Joined job(source);
  const std::vector<MemberIndex> owners{0, 1};
  const std::vector<FlowIndex> flows = job.flows.of(owners);
  EXPECT_EQ(flows.size(), job.flows.of(0).size() + job.flows.of(1).size());
  EXPECT_TRUE(std::ranges::is_sorted(flows));
  EXPECT_EQ(job.flows.find(node_of_rank(0), 4711), kNoFlow);
  EXPECT_TRUE(job.flows.of(MemberIndex{99}).empty());
}

TEST(Flows, WhatIsKnownOfOneEndHoldsForTheOther) {
  for (const CommHash receiver : {CommHash{0}, kHash, CommHash{78}}) {
    MemorySource source;
    fill(source, {});
    connect(source);
    attribute(source, 1, kOut, kHash);
    attribute(source, 2, kIn, receiver);
    const Joined job(source);
    const CommHash expected = receiver == 78 ? 0 : kHash;  // two names contradict each other
    EXPECT_EQ(job.flow(1, kOut).communicator, expected);
    EXPECT_EQ(job.flow(2, kIn).communicator, expected);
    EXPECT_EQ(job.flow(2, kOut).communicator, 0U);
  }
}

TEST(Flows, OfAnotherCommunicatorCarryNothingOfThisOne) {
  constexpr CommHash kOther = 78;
  MemorySource source;
  fill(source, {});
  add_communicator(source, kOther);
  connect(source);
  attribute(source, 0, kOut, kHash);
  attribute(source, 1, kOut, kOther);
  attribute(source, 2, kOut, 79);  // a name that no calls have
  const Joined job(source);
  const auto carries = [&](int rank, CommHash communicator) {
    return may_carry(job.timeline, job.flow(rank, kOut), communicator);
  };
  EXPECT_TRUE(carries(0, kHash));
  EXPECT_FALSE(carries(0, kOther));
  EXPECT_FALSE(carries(1, kHash));
  EXPECT_TRUE(carries(1, kOther));
  EXPECT_TRUE(carries(1, 0)) << "made before tracing began";
  EXPECT_TRUE(carries(2, kHash));
  EXPECT_TRUE(carries(3, kHash)) << "not attributed";
}

}  // namespace
}  // namespace stalltrace::analysis
