// SPDX-License-Identifier: Apache-2.0
#include "autopsy/judge/judge.h"

#include <gtest/gtest.h>

#include "autopsy/testing/snapshots.h"
#include "tests/support/golden_text.h"

namespace stalltrace::autopsy {
namespace {

using testing::at_call_site;
using testing::JobLooks;

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
void repeats(JobLooks& looks, int rank, int peer, uint64_t arrived_there = 0) {
  for (const int look : {0, 1}) {
    TcpSocket& socket = looks.socket(look, rank, peer);
    socket.timer = Timer::kRetransmit;
    socket.tries = 4 + static_cast<uint32_t>(look);
    socket.time_out_ms = 6400;
    socket.send_queue = 65'536;
    looks.socket(look, peer, rank).received += arrived_there;
  }
}

TEST(Judge, ARankThatIsElsewhereWhileTheOthersWait) {
  JobLooks looks(4);
  looks.leaves(2);
  for (const int look : {0, 1}) {
    looks.socket(look, 2, 1).receive_queue = 4096;
  }
  const JobVerdict verdict = looks.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  const Finding& finding = verdict.findings[0];
  EXPECT_EQ(finding.cause, Cause::kMissingCollective);
  EXPECT_EQ(finding.culprit->rank, 2);
  EXPECT_EQ(finding.culprit->pid, 4002);
  EXPECT_EQ(finding.severity, Severity::kCritical);  // silent for longer than a wait may be
  EXPECT_EQ(finding.stall_ms, 42'000);
  golden::expect_text(text_of(verdict));
}

TEST(Judge, ARankThatMayStillComeIsWaitedFor) {
  JobLooks looks(4);
  looks.leaves(2);
  for (const int rank : {0, 1, 2, 3}) {
    looks.both(rank, [](RankState& state) {
      for (TcpSocket& socket : state.sockets) {
        socket.silent_ms = 2'000;
      }
    });
  }
  EXPECT_EQ(looks.verdict().findings.at(0).severity, Severity::kWaiting);
}

TEST(Judge, HeartbeatsDoNotMakeAHangYoung) {
  JobLooks looks(4);
  looks.leaves(2);
  for (const int rank : {0, 1}) {
    looks.socket(1, rank, 1 - rank).silent_ms = 100;
    looks.socket(1, rank, 1 - rank).acked = looks.socket(1, rank, 1 - rank).received = 900;
  }
  EXPECT_EQ(looks.verdict().findings.at(0).stall_ms, 42'000);
}

TEST(Judge, MoreRanksElsewhereThanThereAreInTheCall) {
  JobLooks looks(4);
  for (const int rank : {0, 1, 2}) {
    looks.leaves(rank);
  }
  const JobVerdict verdict = looks.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kMissingCollective);
  EXPECT_EQ(verdict.findings[0].culprit->rank, 3);  // alone in its call
  golden::expect_text(verdict.text);
}

TEST(Judge, ARankOfWhichTheCallIsNotKnownIsNotBlamed) {
  JobLooks looks(4);
  looks.leaves(2);
  looks.both(2, [](RankState& state) {
    state.call_known = false;
    state.call_problem = "sample a running thread: Permission denied";
  });
  const JobVerdict verdict = looks.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kUnknown);
  EXPECT_FALSE(verdict.findings[0].culprit);
  golden::expect_text(text_of(verdict));
}

TEST(Judge, AStoppedRank) {
  JobLooks looks(4);
  looks.both(1, [](RankState& state) { state.run_state = RunState::kStopped; });
  looks.leaves(1);
  const JobVerdict verdict = looks.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);  // that it is outside of all calls is no second one
  EXPECT_EQ(verdict.findings[0].cause, Cause::kProcessStopped);
  EXPECT_EQ(verdict.findings[0].culprit->rank, 1);
  golden::expect_text(text_of(verdict));
}

/// A path with " at " in it is no line of a Python program.
TEST(Judge, AWaitIsNoCallSiteWhateverItsTextIs) {
  JobLooks looks(4);
  looks.both(1, [](RankState& state) {
    state.run_state = RunState::kStopped;
    state.call.reset();
    state.location = "in read of descriptor 5, /data/at rest at home";
    state.call_site.reset();
    state.activity = "reading /data/at rest at home";
  });
  golden::expect_text(text_of(looks.verdict()));
}

TEST(Judge, TheCallIsNamedWhereTheProgramCalledAnother) {
  JobLooks looks(4);
  for (const int rank : {0, 1, 2, 3}) {
    looks.both(rank, [](RankState& state) { at_call_site(state, {"synchronize", "train.py:90"}); });
  }
  golden::expect_text(text_of(looks.verdict()));
}

TEST(Judge, ARankThatWasContinuedBetweenTheLooksIsNotStopped) {
  JobLooks looks(4);
  looks.last(1).run_state = RunState::kStopped;
  EXPECT_EQ(looks.verdict().findings.at(0).cause, Cause::kUnknown);
}

TEST(Judge, ADebuggerIsNamed) {
  JobLooks looks(2);
  looks.both(1, [](RankState& state) {
    state.run_state = RunState::kDebugged;
    state.debugger = 999;
  });
  golden::expect_text(looks.verdict().text);
}

TEST(Judge, ALinkThatAcknowledgesNothing) {
  JobLooks looks(4);
  repeats(looks, 1, 2);
  const JobVerdict verdict = looks.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kPartition);
  EXPECT_FALSE(verdict.findings[0].culprit);
  EXPECT_EQ(verdict.findings[0].link->src_rank, 1);
  EXPECT_EQ(verdict.findings[0].link->dst_rank, 2);
  golden::expect_text(text_of(verdict));
}

TEST(Judge, LostAcknowledgementsBlameTheOtherDirection) {
  JobLooks looks(4);
  repeats(looks, 1, 2, 65'536);
  const Finding finding = looks.verdict().findings.at(0);
  EXPECT_EQ(finding.link->src_rank, 2);
  EXPECT_EQ(finding.link->dst_rank, 1);
}

TEST(Judge, LinksWithOneRankInCommonBlameThatRank) {
  JobLooks looks(4);
  repeats(looks, 1, 2);
  repeats(looks, 2, 3);
  const JobVerdict verdict = looks.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kPartition);
  EXPECT_EQ(verdict.findings[0].culprit->rank, 2);
}

TEST(Judge, TwoLinksWithoutACommonRankAreTwoFindings) {
  JobLooks looks(4);
  repeats(looks, 0, 1);
  repeats(looks, 2, 3);
  EXPECT_EQ(looks.verdict().findings.size(), 2);
}

TEST(Judge, AcknowledgedDataAreNoPartition) {
  JobLooks looks(4);
  repeats(looks, 1, 2);
  looks.socket(1, 1, 2).acked += 1;
  EXPECT_EQ(looks.verdict().findings.at(0).cause, Cause::kUnknown);
}

TEST(Judge, ARankThatDoesNotRead) {
  JobLooks looks(4);
  for (const int look : {0, 1}) {
    looks.socket(look, 1, 2).timer = Timer::kWindowProbe;
    looks.socket(look, 1, 2).send_queue = 1 << 20;
    looks.socket(look, 2, 1).receive_queue = 4 << 20;
  }
  const JobVerdict verdict = looks.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kSlowReceiver);
  EXPECT_EQ(verdict.findings[0].culprit->rank, 2);
  golden::expect_text(text_of(verdict));
  looks.socket(0, 2, 1).receive_queue -= 1;
  EXPECT_EQ(looks.verdict().findings.at(0).cause, Cause::kUnknown);
}

TEST(Judge, AnAbsentRankOfALaunchOnOneNodeIsDead) {
  JobLooks looks(4);
  for (const int rank : {0, 1, 2, 3}) {
    looks.both(rank, [](RankState& state) { state.local_size = 4; });
  }
  looks.remove(2);
  const JobVerdict verdict = looks.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kDeadRank);
  EXPECT_EQ(verdict.findings[0].culprit->rank, 2);
  golden::expect_text(text_of(verdict));
}

TEST(Judge, AnAbsentRankWhoseEndOfAConnectionWasClosedIsDead) {
  JobLooks looks(4);
  looks.remove(2);
  for (Snapshot& look : looks.looks()) {
    std::erase(look.host_addresses, "10.0.0.3");            // its namespace is gone, or was another host's
    look.ranks[1].sockets[0].state = TcpState::kCloseWait;  // rank 1's to rank 2
  }
  EXPECT_EQ(looks.verdict().findings.at(0).cause, Cause::kUnknown);  // rank 3's is still open
  for (Snapshot& look : looks.looks()) {
    look.ranks[2].sockets[1].state = TcpState::kCloseWait;
  }
  const Finding finding = looks.verdict().findings.at(0);
  EXPECT_EQ(finding.cause, Cause::kDeadRank);
  EXPECT_EQ(finding.culprit->rank, 2);
}

TEST(Judge, RanksOnOtherHostsAreNotGuessedAt) {
  JobLooks looks(4);
  looks.remove(2);
  looks.remove(3);
  for (Snapshot& look : looks.looks()) {
    look.host_addresses.resize(2);
  }
  const JobVerdict verdict = looks.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kUnknown);
  golden::expect_text(text_of(verdict));
}

TEST(Judge, ARankThatEndsWhileItIsWatched) {
  JobLooks looks(4);
  std::erase_if(looks.looks()[1].ranks, [](const RankState& state) { return state.rank == 2; });
  const JobVerdict verdict = looks.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kDeadRank);
  EXPECT_EQ(verdict.findings[0].culprit->pid, 4002);
}

TEST(Judge, RanksThatEndFollowTheOneThatHadEndedBefore) {
  JobLooks looks(3);
  looks.remove(2);
  looks.looks()[1].ranks.clear();
  const JobVerdict verdict = looks.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kDeadRank);
  EXPECT_EQ(verdict.findings[0].culprit->rank, 2);
  golden::expect_text(verdict.text);
}

TEST(Judge, RanksInDifferentCalls) {
  JobLooks looks(4);
  looks.both(3, [](RankState& state) {
    at_call_site(state, {"barrier", "train.py:99"});
    state.call = OpenCall{"barrier", Operation::kBarrier, Witness::kPython};
  });
  const JobVerdict verdict = looks.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kMissingCollective);
  EXPECT_EQ(verdict.findings[0].culprit->rank, 3);
  golden::expect_text(text_of(verdict));
}

TEST(Judge, AllInOneCallIsUnknown) {
  JobLooks looks(4);
  const JobVerdict verdict = looks.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kUnknown);
  golden::expect_text(text_of(verdict));
}

TEST(Judge, DataThatFlowBetweenAllRanksAreProgress) {
  JobLooks looks(3);
  looks.leaves(2);
  const auto flows = [&](uint64_t bytes) {
    for (const int rank : {0, 1, 2}) {
      for (TcpSocket& socket : looks.last(rank).sockets) {
        socket.received += bytes;
      }
    }
  };
  flows(100);  // a heartbeat
  EXPECT_EQ(looks.verdict().state, JobState::kHangs);
  flows(1000);
  const JobVerdict verdict = looks.verdict();
  EXPECT_EQ(verdict.state, JobState::kProgresses);
  EXPECT_TRUE(verdict.findings.empty());
  golden::expect_text(verdict.text);
}

TEST(Judge, CallsThatEndOrAreLaunchedOnAllRanksAreProgress) {
  JobLooks looks(2);
  looks.context.traced = {.done = true, .problem = "", .lasted_ns = 3'000'000'000, .calls = {{4000, {.ended = 7}}}};
  EXPECT_EQ(looks.verdict().state, JobState::kHangs);  // rank 1 ended none
  looks.context.traced.calls.push_back({4001, {.ended = 6}});
  EXPECT_EQ(looks.verdict().state, JobState::kProgresses);
  golden::expect_text(looks.verdict().text);
  looks.context.traced.calls.back().second = {.ended = 0, .launched = 5};
  EXPECT_EQ(looks.verdict().state, JobState::kProgresses);
  golden::expect_text(looks.verdict().text);
}

TEST(Judge, NoRankWaits) {
  JobLooks looks(3);
  for (const int rank : {0, 1, 2}) {
    looks.leaves(rank);
  }
  const JobVerdict verdict = looks.verdict();
  EXPECT_EQ(verdict.state, JobState::kNoRankWaits);
  EXPECT_TRUE(verdict.findings.empty());
  golden::expect_text(verdict.text);
}

TEST(Judge, WithARankThatCouldNotBeReadItIsNotKnown) {
  JobLooks looks(2);
  looks.leaves(0);
  looks.leaves(1);
  looks.last(1).call_known = false;
  EXPECT_EQ(looks.verdict().state, JobState::kNotKnown);
}

TEST(Judge, AConnectionWithoutAnAnswer) {
  JobLooks looks(2);
  looks.both(1, [](RankState& state) {
    TcpSocket& socket = state.sockets.emplace_back();
    socket.inode = 5;
    socket.local = {"10.0.0.2", 4711};
    socket.remote = {"192.0.2.1", 29500};
    socket.state = TcpState::kSynSent;
    socket.timer = Timer::kRetransmit;
    socket.tries = 3;
  });
  const Finding finding = looks.verdict().findings.at(0);
  EXPECT_EQ(finding.cause, Cause::kInitFailure);
  EXPECT_EQ(finding.link->src_rank, 1);
  EXPECT_EQ(finding.link->dst, (Endpoint{"192.0.2.1", 29500}));
}

TEST(Judge, JobsAreJudgedApart) {
  JobLooks looks(3);
  looks.leaves(2);
  for (Snapshot& look : looks.looks()) {
    look.ranks[2].job = "other";
  }
  const auto verdicts = judge(looks.looks(), looks.context);
  ASSERT_EQ(verdicts.size(), 2);
  EXPECT_EQ(verdicts[0].state, JobState::kNoRankWaits);
  EXPECT_EQ(verdicts[1].findings.at(0).cause, Cause::kUnknown);
}

}  // namespace
}  // namespace stalltrace::autopsy
