// SPDX-License-Identifier: Apache-2.0
#include "autopsy/judge/judge.h"

#include <gtest/gtest.h>

#include "autopsy/testing/snapshots.h"
#include "tests/support/golden_text.h"

namespace stalltrace::autopsy {
namespace {

using testing::at_call_site;
using testing::JobSnapshots;

std::string text_of(const JobVerdict& verdict) {
  std::string text = std::string(to_text(verdict.state)) + ": " + verdict.text + "\n";
  for (const Finding& finding : verdict.findings) {
    text += "do: " + finding.remedy + "\n";
    for (const Evidence& evidence : finding.evidence) {
      text += evidence.kind + ": " + evidence.text + "\n";
    }
  }
  for (const std::string& note : verdict.notes) {
    text += "note: " + note + "\n";
  }
  return text;
}

/// A segment to `peer` that is repeated in vain.
void repeats(JobSnapshots& job, int rank, int peer, uint64_t arrived_there = 0) {
  for (const int snapshot : {0, 1}) {
    TcpSocket& socket = job.socket(snapshot, rank, peer);
    socket.timer = Timer::kRetransmit;
    socket.tries = 4 + static_cast<uint32_t>(snapshot);
    socket.time_out_ms = 6400;
    socket.send_queue = 65'536;
    job.socket(snapshot, peer, rank).received += arrived_there;
  }
}

TEST(Judge, ARankThatIsElsewhereWhileTheOthersWait) {
  JobSnapshots job(4);
  job.leaves(2);
  for (const int snapshot : {0, 1}) {
    job.socket(snapshot, 2, 1).receive_queue = 4096;
  }
  const JobVerdict verdict = job.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  const Finding& finding = verdict.findings[0];
  EXPECT_EQ(finding.cause, Cause::kMissingCollective);
  EXPECT_EQ(finding.culprit->rank, 2);
  EXPECT_EQ(finding.culprit->pid, 4002);
  EXPECT_EQ(finding.severity, Severity::kWaiting);
  EXPECT_EQ(finding.stall_ms, 42'000);
  golden::expect_text(text_of(verdict));
}

TEST(Judge, ARankThatIsElsewhereForLongerThanAWaitMayLastHangs) {
  JobSnapshots job(4);
  job.leaves(2);
  for (Snapshot& snapshot : job.snapshots()) {
    for (RankState& rank : snapshot.ranks) {
      for (TcpSocket& socket : rank.sockets) {
        socket.silent_ms = 142'000;
      }
    }
  }
  const JobVerdict verdict = job.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].severity, Severity::kCritical);
}

TEST(Judge, ARankThatMakesCallsBetweenTheLooksIsNotMissing) {
  for (const Traced::Calls& calls : {Traced::Calls{.ended = 400}, Traced::Calls{.launched = 1}}) {
    JobSnapshots job(4);
    job.leaves(2);
    job.context.traced["host7"].calls = {{4002, calls}};
    EXPECT_EQ(job.verdict().findings.at(0).cause, Cause::kUnknown);
    job.context.traced["host7"].calls = {{4001, calls}};
    EXPECT_EQ(job.verdict().findings.at(0).cause, Cause::kMissingCollective);
  }
}

TEST(Judge, ARankThatExchangesDataBetweenTheLooksIsNotMissing) {
  JobSnapshots job(4);
  job.leaves(2);
  TcpSocket& socket = job.socket(1, 2, 1);
  socket.received += 1 << 20;
  socket.receive_queue += 1 << 20;  // which it does not read
  EXPECT_EQ(job.verdict().findings.at(0).cause, Cause::kMissingCollective);
  socket.receive_queue = 0;
  const JobVerdict verdict = job.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kUnknown);
  golden::expect_text(text_of(verdict));
}

TEST(Judge, ARankThatMayStillComeIsWaitedFor) {
  JobSnapshots job(4);
  job.leaves(2);
  for (const int rank : {0, 1, 2, 3}) {
    job.both(rank, [](RankState& state) {
      for (TcpSocket& socket : state.sockets) {
        socket.silent_ms = 2'000;
      }
    });
  }
  EXPECT_EQ(job.verdict().findings.at(0).severity, Severity::kWaiting);
}

TEST(Judge, HeartbeatsDoNotMakeAHangYoung) {
  JobSnapshots job(4);
  job.leaves(2);
  for (const int rank : {0, 1}) {
    job.socket(1, rank, 1 - rank).silent_ms = 100;
    job.socket(1, rank, 1 - rank).acked = job.socket(1, rank, 1 - rank).received = 900;
  }
  EXPECT_EQ(job.verdict().findings.at(0).stall_ms, 42'000);
}

TEST(Judge, MoreRanksElsewhereThanThereAreInTheCall) {
  JobSnapshots job(4);
  for (const int rank : {0, 1, 2}) {
    job.leaves(rank);
  }
  const JobVerdict verdict = job.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kMissingCollective);
  EXPECT_EQ(verdict.findings[0].culprit->rank, 3);  // alone in its call
  golden::expect_text(verdict.text);
}

TEST(Judge, ARankOfWhichTheCallIsNotKnownIsNotBlamed) {
  JobSnapshots job(4);
  job.leaves(2);
  job.both(2, [](RankState& state) {
    state.call_known = false;
    state.call_problem = "sample a running thread: Permission denied";
  });
  const JobVerdict verdict = job.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kUnknown);
  EXPECT_FALSE(verdict.findings[0].culprit);
  golden::expect_text(text_of(verdict));
}

TEST(Judge, AStoppedRank) {
  JobSnapshots job(4);
  job.both(1, [](RankState& state) { state.run_state = RunState::kStopped; });
  job.leaves(1);
  const JobVerdict verdict = job.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);  // that it is outside of all calls is no second one
  EXPECT_EQ(verdict.findings[0].cause, Cause::kProcessStopped);
  EXPECT_EQ(verdict.findings[0].culprit->rank, 1);
  golden::expect_text(text_of(verdict));
}

/// A path with " at " in it is no line of a Python program.
TEST(Judge, AWaitIsNoCallSiteWhateverItsTextIs) {
  JobSnapshots job(4);
  job.both(1, [](RankState& state) {
    state.run_state = RunState::kStopped;
    state.call.reset();
    state.location = "in read of descriptor 5, /data/at rest at home";
    state.call_site.reset();
    state.activity = "reading /data/at rest at home";
  });
  golden::expect_text(text_of(job.verdict()));
}

TEST(Judge, TheCallIsNamedWhereTheProgramCalledAnother) {
  JobSnapshots job(4);
  for (const int rank : {0, 1, 2, 3}) {
    job.both(rank, [](RankState& state) { at_call_site(state, {"synchronize", "train.py:90"}); });
  }
  golden::expect_text(text_of(job.verdict()));
}

TEST(Judge, ARankThatWasContinuedBetweenTheLooksIsNotStopped) {
  JobSnapshots job(4);
  job.last(1).run_state = RunState::kStopped;
  EXPECT_EQ(job.verdict().findings.at(0).cause, Cause::kUnknown);
}

TEST(Judge, ADebuggerIsNamed) {
  JobSnapshots job(2);
  job.both(1, [](RankState& state) {
    state.run_state = RunState::kDebugged;
    state.debugger = 999;
  });
  golden::expect_text(job.verdict().text);
}

TEST(Judge, ALinkThatAcknowledgesNothing) {
  JobSnapshots job(4);
  repeats(job, 1, 2);
  const JobVerdict verdict = job.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kPartition);
  EXPECT_FALSE(verdict.findings[0].culprit);
  EXPECT_EQ(verdict.findings[0].link->src_rank, 1);
  EXPECT_EQ(verdict.findings[0].link->dst_rank, 2);
  golden::expect_text(text_of(verdict));
}

TEST(Judge, LostAcknowledgementsBlameTheOtherDirection) {
  JobSnapshots job(4);
  repeats(job, 1, 2, 65'536);
  const Finding finding = job.verdict().findings.at(0);
  EXPECT_EQ(finding.link->src_rank, 2);
  EXPECT_EQ(finding.link->dst_rank, 1);
}

TEST(Judge, LinksWithOneRankInCommonBlameThatRank) {
  JobSnapshots job(4);
  repeats(job, 1, 2);
  repeats(job, 2, 3);
  const JobVerdict verdict = job.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kPartition);
  EXPECT_EQ(verdict.findings[0].culprit->rank, 2);
}

TEST(Judge, TwoLinksWithoutACommonRankAreTwoFindings) {
  JobSnapshots job(4);
  repeats(job, 0, 1);
  repeats(job, 2, 3);
  EXPECT_EQ(job.verdict().findings.size(), 2);
}

TEST(Judge, AcknowledgedDataAreNoPartition) {
  JobSnapshots job(4);
  repeats(job, 1, 2);
  job.socket(1, 1, 2).acked += 1;
  EXPECT_EQ(job.verdict().findings.at(0).cause, Cause::kUnknown);
}

TEST(Judge, ARankThatDoesNotRead) {
  JobSnapshots job(4);
  for (const int snapshot : {0, 1}) {
    job.socket(snapshot, 1, 2).timer = Timer::kWindowProbe;
    job.socket(snapshot, 1, 2).send_queue = 1 << 20;
    job.socket(snapshot, 2, 1).receive_queue = 4 << 20;
  }
  const JobVerdict verdict = job.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kSlowReceiver);
  EXPECT_EQ(verdict.findings[0].culprit->rank, 2);
  golden::expect_text(text_of(verdict));
  job.socket(0, 2, 1).receive_queue -= 1;
  EXPECT_EQ(job.verdict().findings.at(0).cause, Cause::kUnknown);
}

TEST(Judge, AnAbsentRankOfALaunchOnOneNodeIsDead) {
  JobSnapshots job(4);
  for (const int rank : {0, 1, 2, 3}) {
    job.both(rank, [](RankState& state) { state.local_size = 4; });
  }
  job.remove(2);
  const JobVerdict verdict = job.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kDeadRank);
  EXPECT_EQ(verdict.findings[0].culprit->rank, 2);
  golden::expect_text(text_of(verdict));
}

TEST(Judge, AnAbsentRankWhoseEndOfAConnectionWasClosedIsDead) {
  JobSnapshots job(4);
  job.remove(2);
  for (Snapshot& snapshot : job.snapshots()) {
    std::erase(snapshot.host_addresses, "10.0.0.3");            // its namespace is gone, or was another host's
    snapshot.ranks[1].sockets[0].state = TcpState::kCloseWait;  // rank 1's to rank 2
  }
  EXPECT_EQ(job.verdict().findings.at(0).cause, Cause::kUnknown);  // rank 3's is still open
  for (Snapshot& snapshot : job.snapshots()) {
    snapshot.ranks[2].sockets[1].state = TcpState::kCloseWait;
  }
  const Finding finding = job.verdict().findings.at(0);
  EXPECT_EQ(finding.cause, Cause::kDeadRank);
  EXPECT_EQ(finding.culprit->rank, 2);
}

TEST(Judge, RanksOnOtherHostsAreNotGuessedAt) {
  JobSnapshots job(4);
  job.remove(2);
  job.remove(3);
  for (Snapshot& snapshot : job.snapshots()) {
    snapshot.host_addresses.resize(2);
  }
  const JobVerdict verdict = job.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kUnknown);
  golden::expect_text(text_of(verdict));
}

TEST(Judge, ARankThatEndsWhileItIsWatched) {
  JobSnapshots job(4);
  std::erase_if(job.snapshots()[1].ranks, [](const RankState& state) { return state.rank == 2; });
  const JobVerdict verdict = job.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kDeadRank);
  EXPECT_EQ(verdict.findings[0].culprit->pid, 4002);
}

TEST(Judge, ARankThatEndsFollowsTheOneThatHadEndedBefore) {
  JobSnapshots job(4);
  job.remove(2);
  std::erase_if(job.snapshots()[1].ranks, [](const RankState& state) { return state.rank == 3; });
  const JobVerdict verdict = job.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kDeadRank);
  EXPECT_EQ(verdict.findings[0].culprit->rank, 2);
  golden::expect_text(verdict.text);
}

TEST(Judge, AJobThatEndsWhileItIsWatchedDoesNotHang) {
  for (const int ranks : {1, 2, 12}) {
    JobSnapshots job(ranks);
    job.snapshots()[1].ranks.clear();
    const JobVerdict verdict = job.verdict();
    EXPECT_EQ(verdict.state, JobState::kEnded);
    EXPECT_EQ(to_text(verdict.state), "ended");
    EXPECT_TRUE(verdict.findings.empty());
    golden::expect_text(text_of(verdict));
  }
}

TEST(Judge, RanksThatHadEndedBeforeTheJobAreNamed) {
  JobSnapshots job(3);
  job.remove(2);
  job.snapshots()[1].ranks.clear();
  const JobVerdict elsewhere = job.verdict();  // as far as is known
  EXPECT_EQ(elsewhere.state, JobState::kEnded);
  golden::expect_text(text_of(elsewhere));
  for (RankState& rank : job.snapshots()[0].ranks) {
    rank.local_size = 3;
  }
  const JobVerdict here = job.verdict();
  EXPECT_EQ(here.state, JobState::kEnded);
  golden::expect_text(text_of(here));
}

TEST(Judge, AJobWhoseLastRankIsInNoCallMayBeEnding) {
  JobSnapshots job(3);
  job.leaves(0);  // it writes a checkpoint
  std::erase_if(job.snapshots()[1].ranks, [](const RankState& state) { return state.rank != 0; });
  const JobVerdict verdict = job.verdict();
  EXPECT_EQ(verdict.state, JobState::kNoRankWaits);
  EXPECT_TRUE(verdict.findings.empty());
  ASSERT_EQ(verdict.notes.size(), 1);
  golden::expect_text(verdict.text + "\n" + verdict.notes[0]);
  job.last(0).call_known = false;
  EXPECT_EQ(job.verdict().findings.at(0).cause, Cause::kDeadRank);
  job.last(0).call_known = true;
  job.last(0).call = OpenCall{"all_reduce", Operation::kAllReduce, Witness::kPython};  // since a moment
  EXPECT_EQ(job.verdict().findings.at(0).cause, Cause::kDeadRank);
}

TEST(Judge, RanksThatAreGoneWhileTheLastOneIsInNoCall) {
  JobSnapshots job(3);
  job.both(0, [](RankState& state) { state.local_size = 3; });
  job.leaves(0);
  job.remove(1);
  job.remove(2);
  const JobVerdict verdict = job.verdict();
  EXPECT_EQ(verdict.state, JobState::kNoRankWaits);
  EXPECT_TRUE(verdict.findings.empty());
  ASSERT_EQ(verdict.notes.size(), 1);
  golden::expect_text(verdict.text + "\n" + verdict.notes[0]);
}

TEST(Judge, RanksInDifferentCalls) {
  JobSnapshots job(4);
  job.both(3, [](RankState& state) {
    at_call_site(state, {"barrier", "train.py:99"});
    state.call = OpenCall{"barrier", Operation::kBarrier, Witness::kPython};
  });
  const JobVerdict verdict = job.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kMissingCollective);
  EXPECT_EQ(verdict.findings[0].culprit->rank, 3);
  golden::expect_text(text_of(verdict));
}

TEST(Judge, AllInOneCallIsUnknown) {
  JobSnapshots job(4);
  const JobVerdict verdict = job.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kUnknown);
  golden::expect_text(text_of(verdict));
}

TEST(Judge, DataThatFlowBetweenAllRanksAreProgress) {
  JobSnapshots job(3);
  job.leaves(2);
  const auto flows = [&](uint64_t bytes) {
    for (const int rank : {0, 1, 2}) {
      for (TcpSocket& socket : job.last(rank).sockets) {
        socket.received += bytes;
      }
    }
  };
  flows(100);  // a heartbeat
  EXPECT_EQ(job.verdict().state, JobState::kHangs);
  flows(3000);
  const JobVerdict verdict = job.verdict();
  EXPECT_EQ(verdict.state, JobState::kProgresses);
  EXPECT_TRUE(verdict.findings.empty());
  golden::expect_text(verdict.text);
  for (TcpSocket& socket : job.last(1).sockets) {
    socket.receive_queue = 3000;  // it does not read them
  }
  EXPECT_EQ(job.verdict().state, JobState::kHangs);
}

/// 100 bytes a second on each of two connections, 37 KiB in all.
TEST(Judge, HeartbeatsOfManyRanksAreNoProgress) {
  JobSnapshots job(64);
  job.leaves(2);
  for (int rank = 0; rank < 64; ++rank) {
    for (TcpSocket& socket : job.last(rank).sockets) {
      socket.received += 300;
      socket.acked += 300;
    }
  }
  const JobVerdict verdict = job.verdict();
  EXPECT_EQ(verdict.state, JobState::kHangs);
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].culprit->rank, 2);
  EXPECT_EQ(verdict.findings[0].stall_ms, 42'000);
}

TEST(Judge, DataBetweenTwoRanksAreNoProgressOfOthersWithHeartbeats) {
  JobSnapshots job(4);
  for (const int rank : {0, 1, 2, 3}) {
    for (TcpSocket& socket : job.last(rank).sockets) {
      socket.received += 300;
      socket.acked += 300;
    }
  }
  job.socket(1, 0, 1).received += 1 << 20;
  job.socket(1, 1, 0).acked += 1 << 20;
  EXPECT_EQ(job.verdict().state, JobState::kHangs);
}

/// As where ranks of one host exchange their data without sockets, and one of them with another host.
TEST(Judge, RanksWithHeartbeatsAloneDoNotHideProgress) {
  JobSnapshots job(4);
  for (const int rank : {0, 1, 2, 3}) {
    job.both(rank, [](RankState& state) {
      for (TcpSocket& socket : state.sockets) {
        socket.acked = socket.received = 900;
      }
    });
  }
  for (const int snapshot : {0, 1}) {
    job.socket(snapshot, 0, 1).received = job.socket(snapshot, 1, 0).acked = 1'000'000;
  }
  EXPECT_EQ(job.verdict().state, JobState::kHangs);
  job.socket(1, 0, 1).received += 1 << 20;
  job.socket(1, 1, 0).acked += 1 << 20;
  EXPECT_EQ(job.verdict().state, JobState::kProgresses);
}

TEST(Judge, CallsThatEndOrAreLaunchedOnAllRanksAreProgress) {
  JobSnapshots job(2);
  Traced& traced = job.context.traced["host7"];
  traced = {.done = true, .problem = "", .lasted_ns = 3'000'000'000, .calls = {{4000, {.ended = 7}}}};
  EXPECT_EQ(job.verdict().state, JobState::kHangs);  // rank 1 ended none
  traced.calls.push_back({4001, {.ended = 6}});
  EXPECT_EQ(job.verdict().state, JobState::kProgresses);
  golden::expect_text(job.verdict().text);
  traced.calls.back().second = {.ended = 0, .launched = 5};
  EXPECT_EQ(job.verdict().state, JobState::kProgresses);
  golden::expect_text(job.verdict().text);
}

TEST(Judge, NoRankWaits) {
  JobSnapshots job(3);
  for (const int rank : {0, 1, 2}) {
    job.leaves(rank);
  }
  const JobVerdict verdict = job.verdict();
  EXPECT_EQ(verdict.state, JobState::kNoRankWaits);
  EXPECT_TRUE(verdict.findings.empty());
  golden::expect_text(verdict.text);
}

TEST(Judge, WithARankThatCouldNotBeReadItIsNotKnown) {
  JobSnapshots job(2);
  job.leaves(0);
  job.leaves(1);
  job.last(1).call_known = false;
  EXPECT_EQ(job.verdict().state, JobState::kNotKnown);
}

TEST(Judge, AConnectionWithoutAnAnswer) {
  JobSnapshots job(2);
  job.both(1, [](RankState& state) {
    TcpSocket& socket = state.sockets.emplace_back();
    socket.inode = 5;
    socket.local = {"10.0.0.2", 4711};
    socket.remote = {"192.0.2.1", 29500};
    socket.state = TcpState::kSynSent;
    socket.timer = Timer::kRetransmit;
    socket.tries = 3;
  });
  const Finding finding = job.verdict().findings.at(0);
  EXPECT_EQ(finding.cause, Cause::kInitFailure);
  EXPECT_EQ(finding.link->src_rank, 1);
  EXPECT_EQ(finding.link->dst, (Endpoint{"192.0.2.1", 29500}));
}

TEST(Judge, JobsAreJudgedApart) {
  JobSnapshots job(3);
  job.leaves(2);
  for (Snapshot& snapshot : job.snapshots()) {
    snapshot.ranks[2].job = "other";
  }
  const auto verdicts = judge(job.snapshots(), job.context);
  ASSERT_EQ(verdicts.size(), 2);
  EXPECT_EQ(verdicts[0].state, JobState::kNoRankWaits);
  EXPECT_EQ(verdicts[1].findings.at(0).cause, Cause::kUnknown);
}

}  // namespace
}  // namespace stalltrace::autopsy
