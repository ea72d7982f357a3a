// SPDX-License-Identifier: Apache-2.0
// Rules on groups that a test makes: which are joined, and with whom a rank is compared.
#include <gtest/gtest.h>

#include "analysis/causes/cause.h"
#include "analysis/testing/loaded_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

Interval seconds(int64_t from, int64_t to) { return {kOriginNs + from * kNsPerSecond, kOriginNs + to * kNsPerSecond}; }

MemorySource small_job_rows() {
  MemorySource source;
  fill(source, {});
  return source;
}

TEST(JoinAwaited, OnlyRanksThatWereAwaitedAtOneTime) {
  const LoadedJob job(small_job_rows());
  const Stall early = slow_transfer(job, seconds(10, 20));
  const Stall late = slow_transfer(job, seconds(100, 110));
  std::vector<CauseGroup> groups;
  for (MemberIndex member = 0; member < 4; ++member) {
    groups.push_back(group_of(job, Cause::kUnknown, {.culprit = member}, {member < 2 ? &early : &late}));
  }
  rule_of(Cause::kUnknown).refine(job.context(), groups);
  ASSERT_EQ(groups.size(), 2U);
  for (const CauseGroup& group : groups) {
    EXPECT_EQ(group.location.culprit, kNoMember);
    EXPECT_EQ(group.stalls.size(), 2U);
    EXPECT_EQ(group.lost.total_ns(), 10 * kNsPerSecond);
  }
}

TEST(JoinAwaited, WhereNoRankWasAwaitedOnlyIfItWasThen) {
  const LoadedJob job(small_job_rows());
  const Stall hang = slow_transfer(job, seconds(100, 110));
  const Stall inside = slow_transfer(job, seconds(102, 104));
  const Stall before = slow_transfer(job, seconds(10, 20));
  for (const Stall* other : {&inside, &before}) {
    std::vector<CauseGroup> groups{group_of(job, Cause::kUnknown, {}, {other}),
                                   group_of(job, Cause::kUnknown, {.culprit = 1}, {&hang}),
                                   group_of(job, Cause::kUnknown, {.culprit = 2}, {&hang})};
    rule_of(Cause::kUnknown).refine(job.context(), groups);
    EXPECT_EQ(groups.size(), other == &inside ? 1U : 2U);
  }
}

/// All ranks of the small job, on one node.
MemorySource rows_of_one_node() {
  MemorySource source;
  source.accept(Node{.node_id = 1, .name = "node0", .started_ns = kOriginNs, .ended_ns = kOriginNs + kRecordedNs});
  for (int rank = 0; rank < kRanks; ++rank) {
    Process process{.node_id = 1, .pid = 10 + rank, .exe = "/opt/job/train"};
    process.rank = rank;
    source.accept(process);
    for (int64_t step = 0; step < kSteps; ++step) {
      Collective call = call_of(rank, step);
      call.node_id = 1;
      call.event_id = make_event_id(1, static_cast<uint64_t>(step * kRanks + rank + 1));
      source.accept(call);
    }
  }
  return source;
}

/// A link into the rank that sends slowly seems slow as well; another one on its node does not.
TEST(SlowLink, OnOneNodeALinkIsAnEchoOnlyOfItsOwnRank) {
  const LoadedJob job(rows_of_one_node());
  ASSERT_EQ(job.cluster.members().size(), 4U);
  const Stall stall = slow_transfer(job, seconds(1, 2));
  CauseGroup by = group_of(job, Cause::kSlowLink, {.src = 0, .dst = 1}, {&stall});
  const auto kind = [&](MemberIndex src, MemberIndex dst) {
    const CauseGroup group = group_of(job, Cause::kSlowLink, {.src = src, .dst = dst}, {&stall});
    return rule_of(Cause::kSlowLink).subsumed_by({.context = job.context(), .group = group, .by = by}).kind;
  };
  EXPECT_EQ(kind(3, 0), Subsumption::Kind::kMergeCost);
  EXPECT_EQ(kind(2, 3), Subsumption::Kind::kNone);
}

TEST(SlowLink, AnyLinkIntoTheNodeOfASlowSenderIsAnEcho) {
  const LoadedJob job(small_job_rows());
  const Stall stall = slow_transfer(job, seconds(1, 2));
  CauseGroup by = group_of(job, Cause::kSlowLink, {.src = 0, .dst = 1}, {&stall});
  const CauseGroup echo = group_of(job, Cause::kSlowLink, {.src = 3, .dst = 0}, {&stall});
  const CauseGroup other = group_of(job, Cause::kSlowLink, {.src = 2, .dst = 3}, {&stall});
  const auto kind = [&](const CauseGroup& group) {
    return rule_of(Cause::kSlowLink).subsumed_by({.context = job.context(), .group = group, .by = by}).kind;
  };
  EXPECT_EQ(kind(echo), Subsumption::Kind::kMergeCost);
  EXPECT_EQ(kind(other), Subsumption::Kind::kNone);
}

/// In a job of thousands of ranks waits are read of a few of each communicator, in the times of its own stalls.
TEST(LateRank, IsComparedWithOthersWhereTheirWaitsWereRead) {
  MemorySource source;
  fill(source, {});
  for (int64_t step = 0; step < kSteps; ++step) {
    for (const int rank : {0, 1}) {
      source.accept(call_of(rank, step, kHash + 1));
    }
  }
  for (int rank = 0; rank < kRanks; ++rank) {  // they compute while they wait, as MPI does
    for (const Interval time : {seconds(1, 2), seconds(3, 8)}) {
      WaitSpan span{.node_id = node_of_rank(rank), .timestamp_ns = time.from_ns, .window_ns = time.length()};
      span.kind = WaitKind::kOnCpu;
      span.waited_ns = time.length();
      span.pid = span.tid = 10 + rank;
      source.accept(span);
    }
  }
  const Examined all{.window = seconds(1, 2), .waits_of = {0, 1, 2, 3}};
  const Examined pair{.window = seconds(3, 8), .waits_of = {1}};
  const LoadedJob job(std::move(source), {all, pair});
  ASSERT_EQ(job.timeline.groups().size(), 2U);
  const auto late = [&](uint32_t group, Interval window) {
    Stall stall = slow_transfer(job, window);
    stall.group = group;
    stall.verdict.part = StallPart::kLate;
    stall.kind = LateArrival{1, 11, false};
    stall.suspects = {1};
    return stall;
  };
  const uint32_t world = job.timeline.groups()[0].hash == kHash ? 0 : 1;
  const Stall of_all = late(world, all.window);
  const Stall of_pair = late(1 - world, pair.window);
  const CauseGroup group = group_of(job, Cause::kLateRank, {.culprit = 1}, {&of_all, &of_pair});
  Finding finding{.cause = Cause::kLateRank, .confidence = 0.9};
  finding.culprit = culprit_of(job.cluster, 1);
  rule_of(Cause::kLateRank).describe(job.context(), group, finding);
  EXPECT_LT(finding.confidence, 0.9) << "that it computed shows nothing: the others did, too";
}

}  // namespace
}  // namespace stalltrace::analysis
