// SPDX-License-Identifier: Apache-2.0
#include "autopsy/hosts/join_hosts.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "autopsy/judge/peers.h"
#include "autopsy/judge/thresholds.h"
#include "autopsy/testing/hosts.h"
#include "base/clock.h"
#include "tests/support/golden_text.h"

namespace stalltrace::autopsy {
namespace {

using testing::host_of;
using testing::JobSnapshots;

std::vector<JobVerdict> verdicts_of(std::vector<HostResult> hosts) {
  const auto joined = join_hosts(std::move(hosts));
  EXPECT_TRUE(joined);
  return joined ? judge(joined->snapshots, joined->context) : std::vector<JobVerdict>();
}

std::vector<HostResult> halves(JobSnapshots& job) { return {host_of(job, "gpu01", 0, 1), host_of(job, "gpu02", 2, 3)}; }

/// gpu02 50 s before gpu01.
std::vector<HostResult> looked_at_in_turn(JobSnapshots& job) {
  std::vector<HostResult> hosts = halves(job);
  for (Snapshot& snapshot : hosts[1].snapshots) {
    snapshot.taken_ns -= 50 * kNsPerSecond;
  }
  return hosts;
}

TEST(JoinHosts, ARankOfOneHostForWhichThoseOfAnotherWait) {
  JobSnapshots job(4);
  job.leaves(2);
  const auto alone = verdicts_of({host_of(job, "gpu01", 0, 1)});
  ASSERT_EQ(alone.size(), 1);
  EXPECT_EQ(alone[0].findings.at(0).cause, Cause::kUnknown);
  const auto verdicts = verdicts_of(halves(job));
  ASSERT_EQ(verdicts.size(), 1);
  EXPECT_EQ(verdicts[0].ranks, 4);
  ASSERT_EQ(verdicts[0].findings.size(), 1);
  const Finding& finding = verdicts[0].findings[0];
  EXPECT_EQ(finding.cause, Cause::kMissingCollective);
  EXPECT_EQ(finding.culprit->rank, 2);
  EXPECT_EQ(finding.culprit->node, "gpu02");
  EXPECT_TRUE(verdicts[0].notes.empty());
}

TEST(JoinHosts, BothEndsOfAConnectionBetweenHosts) {
  JobSnapshots job(4);
  for (const int snapshot : {0, 1}) {
    TcpSocket& socket = job.socket(snapshot, 1, 2);
    socket.timer = Timer::kRetransmit;
    socket.tries = 4;
    socket.send_queue = 65'536;
  }
  EXPECT_FALSE(verdicts_of({host_of(job, "gpu01", 0, 1)}).at(0).findings.at(0).link->dst_rank);
  const auto verdicts = verdicts_of(halves(job));
  ASSERT_EQ(verdicts.at(0).findings.size(), 1);
  const Finding& finding = verdicts[0].findings[0];
  EXPECT_EQ(finding.cause, Cause::kPartition);
  EXPECT_EQ(finding.link->src_rank, 1);
  EXPECT_EQ(finding.link->dst_rank, 2);
}

TEST(JoinHosts, AHostThatWasLookedAtWhileTheJobRanIsNotBlamed) {
  JobSnapshots job(4);
  job.leaves(2);
  job.leaves(3);
  std::vector<HostResult> hosts = looked_at_in_turn(job);
  const auto verdicts = verdicts_of(hosts);
  ASSERT_EQ(verdicts.at(0).findings.size(), 2);
  for (const Finding& finding : verdicts[0].findings) {
    EXPECT_EQ(finding.cause, Cause::kMissingCollective);
    EXPECT_DOUBLE_EQ(finding.confidence, kApartConfidence);
  }
  golden::expect_text(verdicts[0].text);
  hosts[1].traced.calls = {{4002, {.ended = 400}}, {4003, {.ended = 400}}};
  const auto running = verdicts_of(hosts);
  ASSERT_EQ(running.at(0).findings.size(), 1);
  EXPECT_EQ(running[0].findings[0].cause, Cause::kUnknown);
}

TEST(JoinHosts, CountersOfDifferentMomentsAreNotCompared) {
  JobSnapshots job(4);
  for (const int snapshot : {0, 1}) {
    TcpSocket& socket = job.socket(snapshot, 1, 2);
    socket.timer = Timer::kRetransmit;
    socket.tries = 4;
    socket.send_queue = 65'536;
    job.socket(snapshot, 2, 1).received += 1 << 20;
  }
  EXPECT_EQ(verdicts_of(halves(job)).at(0).findings.at(0).link->src_rank, 2);  // acknowledgements are lost
  const auto verdicts = verdicts_of(looked_at_in_turn(job));
  ASSERT_EQ(verdicts.at(0).findings.size(), 1);
  const Finding& finding = verdicts[0].findings[0];
  EXPECT_EQ(finding.cause, Cause::kPartition);
  EXPECT_EQ(finding.link->src_rank, 1);
  EXPECT_DOUBLE_EQ(finding.confidence, kApartConfidence);
  golden::expect_text(finding.summary);
}

TEST(JoinHosts, AQueueAndAWindowOfDifferentMomentsAreNotJoined) {
  JobSnapshots job(4);
  for (const int snapshot : {0, 1}) {
    job.socket(snapshot, 1, 2).timer = Timer::kWindowProbe;
    job.socket(snapshot, 1, 2).send_queue = 1 << 20;
    job.socket(snapshot, 2, 1).receive_queue = 4 << 20;
  }
  EXPECT_EQ(verdicts_of(halves(job)).at(0).findings.at(0).cause, Cause::kSlowReceiver);
  EXPECT_EQ(verdicts_of(looked_at_in_turn(job)).at(0).findings.at(0).cause, Cause::kUnknown);
}

/// torchrun's name for a job is "none"; two of them on one host get others.
TEST(JoinHosts, ARankThatMayBeOfANamesakeElsewhereIsNotDead) {
  JobSnapshots job(4);
  const auto close_ends = [&](bool all) {
    for (Snapshot& snapshot : job.snapshots()) {
      snapshot.ranks[1].sockets[0].state = TcpState::kCloseWait;
      snapshot.ranks[0].sockets[1].state = all ? TcpState::kCloseWait : TcpState::kEstablished;
    }
  };
  close_ends(false);
  std::vector<HostResult> hosts = halves(job);
  for (Snapshot& snapshot : hosts[1].snapshots) {
    for (RankState& rank : snapshot.ranks) {
      rank.launcher_job = rank.job;
      rank.job += " of pid 10";
    }
  }
  const auto connected = verdicts_of(hosts);
  ASSERT_EQ(connected.size(), 2);
  EXPECT_EQ(connected[0].findings.at(0).cause, Cause::kUnknown);
  EXPECT_NE(connected[0].findings[0].summary.find("on gpu01"), std::string::npos) << connected[0].findings[0].summary;
  close_ends(true);
  EXPECT_EQ(verdicts_of({host_of(job, "gpu01", 0, 1)}).at(0).findings.at(0).cause, Cause::kDeadRank);
  std::ranges::copy(halves(job)[0].snapshots, hosts[0].snapshots.begin());
  const auto joined = join_hosts(hosts);
  ASSERT_TRUE(joined);
  ASSERT_EQ(joined->notes.size(), 1);
  EXPECT_TRUE(joined->context.not_joined.contains("train"));
  EXPECT_EQ(verdicts_of(hosts)[0].findings.at(0).cause, Cause::kUnknown);
  golden::expect_text(joined->notes[0]);
}

TEST(JoinHosts, RenamedJobsAreNeverJoined) {
  JobSnapshots job(4);
  for (const int rank : {0, 1, 2, 3}) {
    job.both(rank, [](RankState& state) {
      state.launcher_job = "none";
      state.job = "none of pid 10";  // in a container on each host
    });
  }
  EXPECT_EQ(verdicts_of(halves(job)).size(), 2);
}

TEST(JoinHosts, TheNewestAnswersOfRasToOneHostCount) {
  JobSnapshots job(4);
  std::vector<HostResult> hosts = halves(job);
  for (const int64_t second : {5, 4, 3}) {
    hosts[0].ras.push_back({.job = "train", .address = "a", .asked_ns = second, .report = {}, .statements = {}});
    hosts[1].ras.push_back({.job = "train", .address = "b", .asked_ns = second - 1, .report = {}, .statements = {}});
  }
  const auto joined = join_hosts(std::move(hosts));
  ASSERT_TRUE(joined);
  ASSERT_EQ(joined->context.ras.size(), 2);
  EXPECT_EQ(joined->context.ras[0].asked_ns, 4);
  EXPECT_EQ(joined->context.ras[0].address, "a");
  EXPECT_EQ(joined->context.ras[1].asked_ns, 5);
}

TEST(JoinHosts, RanksThatNoFileShowsAreNamed) {
  JobSnapshots job(6);
  const auto verdicts = verdicts_of(halves(job));
  ASSERT_EQ(verdicts.at(0).findings.size(), 1);
  EXPECT_EQ(verdicts[0].findings[0].cause, Cause::kUnknown);
  ASSERT_EQ(verdicts[0].notes.size(), 1);
  golden::expect_text(verdicts[0].text + "\n" + verdicts[0].findings[0].remedy + "\n" + verdicts[0].notes[0]);
}

TEST(JoinHosts, NumbersOfProcessesAndNamespacesAreOneHosts) {
  JobSnapshots job(2);
  for (const int rank : {0, 1}) {
    job.both(rank, [](RankState& state) {
      state.pid = 100;
      for (TcpSocket& socket : state.sockets) {
        socket.netns = 4026531840;  // of every host's first namespace
        socket.local.address = socket.remote.address = "127.0.0.1";
      }
    });
  }
  job.leaves(1);
  const auto joined = join_hosts({host_of(job, "gpu01", 0, 0), host_of(job, "gpu02", 1, 1)});
  ASSERT_TRUE(joined);
  EXPECT_TRUE(rank_connections(joined->snapshots[1]).empty());
  const Finding finding = judge(joined->snapshots, joined->context).at(0).findings.at(0);
  EXPECT_EQ(finding.culprit->node, "gpu02");
}

TEST(JoinHosts, CallsCountByHost) {
  JobSnapshots job(2);
  for (const int rank : {0, 1}) {
    job.both(rank, [](RankState& state) { state.pid = 100; });
  }
  std::vector<HostResult> hosts{host_of(job, "gpu01", 0, 0), host_of(job, "gpu02", 1, 1)};
  hosts[0].traced.calls = {{100, {.ended = 5}}};
  EXPECT_EQ(verdicts_of(hosts).at(0).state, JobState::kHangs);
  hosts[1].traced.calls = {{100, {.ended = 5}}};
  EXPECT_EQ(verdicts_of(hosts).at(0).state, JobState::kProgresses);
}

TEST(JoinHosts, TheSameNumbersOnTwoHostsAreTwoJobs) {
  JobSnapshots job(2);
  JobSnapshots other(2);
  other.leaves(1);
  const auto joined = join_hosts({host_of(job, "gpu01", 0, 1), host_of(other, "gpu02", 0, 1)});
  ASSERT_TRUE(joined);
  EXPECT_EQ(joined->notes.size(), 1);
  const auto verdicts = judge(joined->snapshots, joined->context);
  ASSERT_EQ(verdicts.size(), 2);
  EXPECT_EQ(verdicts[0].job, "train on gpu01");
  EXPECT_EQ(verdicts[0].findings.at(0).cause, Cause::kUnknown);
  EXPECT_EQ(verdicts[1].findings.at(0).culprit->node, "gpu02");
}

TEST(JoinHosts, ProcessesWithoutANumberStayTheirHosts) {
  JobSnapshots job(2);
  job.leaves(1);
  std::vector<HostResult> hosts{host_of(job, "gpu01", 0, 0), host_of(job, "gpu02", 1, 1)};
  for (Snapshot& snapshot : hosts[1].snapshots) {
    snapshot.ranks[0].rank.reset();
    snapshot.ranks[0].world_size.reset();
  }
  const auto verdicts = verdicts_of(std::move(hosts));
  ASSERT_EQ(verdicts.size(), 2);
  EXPECT_EQ(verdicts[1].state, JobState::kNoRankWaits);
}

TEST(JoinHosts, HeartbeatsOfALongWatchAreNoProgress) {
  JobSnapshots job(2);
  for (const int rank : {0, 1}) {
    for (TcpSocket& socket : job.last(rank).sockets) {
      socket.received += 5'000;
    }
  }
  std::vector<HostResult> hosts{host_of(job, "gpu01", 0, 0), host_of(job, "gpu02", 1, 1)};
  EXPECT_EQ(verdicts_of(hosts).at(0).state, JobState::kProgresses);
  hosts[1].snapshots[0].taken_ns -= 57 * kNsPerSecond;
  hosts[1].traced.lasted_ns = 60 * kNsPerSecond;
  EXPECT_EQ(verdicts_of(hosts).at(0).state, JobState::kHangs);
}

TEST(JoinHosts, WhatCannotBeJoined) {
  JobSnapshots job(4);
  std::vector<HostResult> twice = halves(job);
  twice[1].node = "gpu01";
  const auto same = join_hosts(twice);
  ASSERT_FALSE(same);
  std::vector<HostResult> apart = halves(job);
  const auto later = [&](int64_t by_ns) {
    apart = halves(job);
    for (Snapshot& snapshot : apart[1].snapshots) {
      snapshot.taken_ns += by_ns;
    }
    return join_hosts(apart);
  };
  EXPECT_TRUE(later(kTogetherNs)->notes.empty());
  EXPECT_EQ(later(kMostApartNs)->notes.size(), 1);
  const auto hours = later(5 * kMostApartNs);
  ASSERT_FALSE(hours);
  golden::expect_text(same.error().what + "\n" + hours.error().what + " -> " + hours.error().remedy);
}

}  // namespace
}  // namespace stalltrace::autopsy
