// SPDX-License-Identifier: Apache-2.0
// When an open call is a hang, and when it is only the end of the observation.
#include <gtest/gtest.h>

#include "analysis/testing/small_job.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

TEST(Hang, AJobThatIsKilledAsAWholeIsHealthy) {
  for (const bool all_inside : {true, false}) {
    Ending ending = all_inside ? hang() : hang({2, 3});
    ending.process = [](int rank, Process& process) { exit_at(process, kLastArrivalNs + (10 + rank) * kNsPerMs); };
    const Report report = report_of(ending);
    EXPECT_TRUE(report.healthy) << reported(report);
  }
}

TEST(Hang, AgentsStoppedOneByOneInAHealthyJobFindNothing) {
  Ending ending;
  const auto last_step = [](int rank) { return kSteps - 1 - 20 * (kRanks - 1 - rank); };
  ending.call = [&](int rank, int64_t step, Collective& call) {
    if (step == last_step(rank)) {
      leave_open(call);
    }
    return step <= last_step(rank);
  };
  ending.node = [&](int rank, Node& node) { node.ended_ns = kOriginNs + last_step(rank) * kStepNs + 2 * kNsPerMs; };
  const Report report = report_of(ending);
  EXPECT_TRUE(report.healthy) << reported(report);
}

/// Calls that return at once and whose ends nothing shows: the last one of communicator kHash, and 100 of `then_on`.
/// With `absent`, rank 2 calls none of them.
std::string reported_of_launches(CommHash then_on, int64_t then_still_ns, bool absent = false) {
  constexpr int64_t kLaunches = 100;
  MemorySource source;
  Ending ending = absent ? hang({2}) : hang();
  const int64_t end_ns = begin_of(kSteps + kLaunches) + then_still_ns;
  ending.node = [=](int, Node& node) { node.ended_ns = end_ns; };
  const auto launch = [](Collective& call) {
    leave_open(call);
    call.launch_ns = 20 * kNsPerUs;
  };
  const auto others = ending.call;
  ending.call = [&](int rank, int64_t step, Collective& call) {
    if (step == kSteps - 1) {
      launch(call);
    }
    return others(rank, step, call);
  };
  fill(source, ending);
  for (int64_t step = 0; step < kLaunches; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      if (absent && rank == 2) {
        continue;
      }
      Collective call = call_of(rank, then_on == kHash ? kSteps + step : step, then_on);
      call.timestamp_ns = begin_of(kSteps + step) + rank * 100 * kNsPerUs;
      launch(call);
      source.accept(call);
    }
  }
  return reported(report_of(source));
}

TEST(Hang, ACallAfterWhichItsThreadLaunchesOthersMayHaveEnded) {
  EXPECT_EQ(reported_of_launches(99, kNsPerSecond / 2), "");
  EXPECT_NE(reported_of_launches(99, 10 * kNsPerSecond), "") << "it launches none any more";
  EXPECT_NE(reported_of_launches(kHash, kNsPerSecond / 2, true), "")
      << "rank 2 is missing: later calls wait for it too";
}

TEST(Hang, ARankKilledWhileOthersGoOnWaitingIsTheCause) {
  for (const bool inside : {true, false}) {
    Ending ending = inside ? hang() : hang({2});
    ending.process = [](int rank, Process& process) {
      exit_at(process, kLastArrivalNs + (rank == 2 ? 10 * kNsPerMs : 30 * kNsPerSecond));
    };
    const Report report = report_of(ending);
    ASSERT_EQ(report.findings.size(), 1U) << inside;
    const Finding& finding = report.findings[0];
    expect_culprit(finding, Cause::kDeadRank, 2);
    EXPECT_EQ(finding.severity, Severity::kCritical);
    EXPECT_NEAR(finding.stall_ms, 30'000, 100);  // until the last of the waiting ranks ended, not the agents
    EXPECT_EQ(evidence_of(finding, "process_exit").count, 1);
  }
}

/// Ranks 0, 1 and 3 are inside when rank 2 ends, and fail soon after: their calls fail, or the launcher ends them.
Ending broken_off(int32_t signal_of_rank_2, int64_t followed_ns = 200 * kNsPerMs) {
  Ending ending = hang();
  ending.process = [=](int rank, Process& process) {
    exit_at(process, kLastArrivalNs + (rank == 2 ? 10 * kNsPerMs : followed_ns + rank * kNsPerMs));
    process.exit_signal = rank == 2 ? std::optional(signal_of_rank_2) : std::nullopt;
    process.exit_code = rank == 2 ? std::nullopt : std::optional(1);
  };
  return ending;
}

TEST(Hang, ARankThatDiesEndsAJobWithoutAHang) {
  Ending ending = broken_off(9);
  ending.call = hang({2}).call;
  const Report report = report_of(ending);
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  expect_culprit(report.findings[0], Cause::kDeadRank, 2);
}

TEST(Hang, ADeathIsReportedHoweverSoonTheOthersFollow) {
  for (int64_t followed_ms = 100; followed_ms < 1'100;
       followed_ms = followed_ms < 980 ? followed_ms + 220 : followed_ms + 1) {
    const Report report = report_of(broken_off(9, followed_ms * kNsPerMs));
    ASSERT_EQ(report.findings.size(), 1U) << followed_ms << " ms\n" << reported(report);
    expect_culprit(report.findings[0], Cause::kDeadRank, 2);
  }
}

/// The view of profiler files: a process is gone for an unknown reason, and the others, whose NCCL noticed it, aborted.
TEST(Hang, ADeathOfWhichOnlyTheTimeIsKnownEndsAJob) {
  Ending ending = hang();
  ending.process = [](int rank, Process& process) {
    if (rank == 2) {
      process.exit_ns = kLastArrivalNs + 10 * kNsPerMs;
    }
  };
  ending.node = [](int, Node& node) { node.ended_ns = kLastArrivalNs + 500 * kNsPerMs; };
  const Report report = report_of(ending);
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  expect_culprit(report.findings[0], Cause::kDeadRank, 2);
}

TEST(Hang, ADisagreementThatEndsTheJobIsTheCauseOfItsDeaths) {
  Ending ending = broken_off(6);
  ending.call = [inner = ending.call](int rank, int64_t step, Collective& call) {
    call.bytes /= step == kSteps - 1 && rank == 2 ? 2 : 1;
    return inner(rank, step, call);
  };
  const Report report = report_of(ending);
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  expect_culprit(report.findings[0], Cause::kMismatchedCollective, 2);
}

TEST(Hang, AJobWhoseRanksAreAllKilledIsHealthy) {
  Ending ending = broken_off(9);
  ending.process = [](int rank, Process& process) { exit_at(process, kLastArrivalNs + (10 + rank) * kNsPerMs, 9); };
  const Report report = report_of(ending);
  EXPECT_TRUE(report.healthy) << reported(report);
}

TEST(Hang, AHangWithLiveRanksLastsToTheEnd) {
  const Report report = report_of(hang());
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].severity, Severity::kCritical);
  EXPECT_GT(report.findings[0].stall_ms, 590'000);
}

TEST(Hang, EndsThatAreNeverSeenAreANoteAndNoHang) {
  Ending ending;
  ending.call = [&](int, int64_t, Collective& call) {
    leave_open(call);
    return true;
  };
  const Report report = report_of(ending);
  EXPECT_TRUE(report.healthy) << reported(report);
  ASSERT_EQ(report.notes.size(), 1U);
  golden::expect_text(report.notes[0]);
}

TEST(CorruptRows, ManyRanksAreCountedAndAFewListed) {
  Ending ending;
  ending.call = [](int, int64_t, Collective& call) {
    call.nranks = 2'000'000'000;
    return true;
  };
  const Report report = report_of(ending);
  EXPECT_TRUE(report.healthy) << reported(report);
  ASSERT_EQ(report.notes.size(), 1U);
  golden::expect_text(report.notes[0]);
  EXPECT_LT(report.notes[0].size(), 200U);
}

TEST(CorruptRows, SequenceNumbersThatJumpCostNoMemory) {
  for (const int64_t jump : {int64_t{1'000'000}, int64_t{1} << 36, int64_t{1} << 62, int64_t{-7}}) {
    MemorySource source;
    for (int64_t step = 0; step < 20'000; ++step) {
      Collective call = call_of(0, step);
      call.seq = static_cast<int64_t>((static_cast<uint64_t>(jump) * static_cast<uint64_t>(step)) & ~(1ULL << 63));
      source.accept(call);
    }
    const Report report = report_of(source);
    EXPECT_EQ(report.collectives, 20'000);
    ASSERT_FALSE(report.notes.empty());
    golden::expect_text(report.notes[0]);
  }
}

TEST(CorruptRows, AGapOrAStrayRowDoesNotDropTheRestOfARank) {
  constexpr int64_t kGap = 5'000'000;
  Ending ending = hang({2});
  ending.call = [inner = ending.call](int rank, int64_t step, Collective& call) {
    call.seq = step < 50 ? step : step + kGap;
    if (step == 20 && rank == 1) {
      call.seq = 1LL << 39;
    }
    return inner(rank, step, call);
  };
  const Report report = report_of(ending);
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  expect_culprit(report.findings[0], Cause::kMissingCollective, 2);
}

TEST(Hang, IsNotDismissedWhenARankSharesItsCoreWithTheJob) {
  MemorySource source;
  fill(source, hang());
  WaitSpan ready{.node_id = 2, .timestamp_ns = kLastArrivalNs, .window_ns = 80 * kNsPerSecond};
  ready.waited_ns = ready.by_waited_ns = ready.window_ns;
  ready.kind = WaitKind::kRunnable;
  ready.pid = ready.tid = 11;
  ready.by_pid = 11;
  ready.by_name = "train";
  source.accept(ready);
  const Report report = report_of(source);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].cause, Cause::kUnknown);
}

TEST(Hang, AHangInTheFirstStepIsFound) {
  Ending ending;
  ending.call = [&](int, int64_t step, Collective& call) {
    leave_open(call);
    return step < 4;  // buckets of one step
  };
  EXPECT_EQ(report_of(ending).findings.size(), 1U);
}

}  // namespace
}  // namespace stalltrace::analysis
