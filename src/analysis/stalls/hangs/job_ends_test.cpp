// SPDX-License-Identifier: Apache-2.0
// Which rank left a job first, and which ranks are only its victims.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/loaded_job.h"
#include "analysis/testing/ring_job.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;
using testing::HasSubstr;

constexpr int64_t kClosedNs = kLastArrivalNs + 100 * kNsPerMs;  // rank 2's connection, closed by itself
constexpr int64_t kExitNs = kLastArrivalNs + 300 * kNsPerMs;    // rank 2's process
constexpr int64_t kOthersExitNs = kLastArrivalNs + 800 * kNsPerMs;

/// The call of the last step fails at `failed_ns` for the ranks that entered it: all except `absent`.
Ending failing(const std::set<int>& absent, int64_t failed_ns) {
  Ending ending;
  ending.call = [=](int rank, int64_t step, Collective& call) {
    if (step == kSteps - 1) {
      call.duration_ns = failed_ns - call.timestamp_ns;
      call.completion = Completion::kCall;
      call.library = Library::kGloo;
      call.return_code = 1;
      return !absent.contains(rank);
    }
    return true;
  };
  return ending;
}

/// No rank enters the last step.
Ending stopping() { return failing({0, 1, 2, 3}, 0); }

using Exit = std::function<void(int rank, Process&)>;

/// Rank 2 ends with this code, the others fail.
Exit rank_2_ends(int32_t code, int64_t exit_ns = kExitNs, int64_t others_ns = kOthersExitNs) {
  return [=](int rank, Process& process) {
    fail_at(process, rank == 2 ? exit_ns : others_ns + rank * kNsPerMs);
    process.exit_code = rank == 2 ? code : 1;
  };
}

struct Job {
  Ending ending;
  Exit exits;
  std::optional<int64_t> closed_ns = std::nullopt;  // rank 2's connection; none: no connection was recorded
};

void fill(MemorySource& source, Job job) {
  job.ending.process = job.exits;
  small_job::fill(source, job.ending);
  if (job.closed_ns) {
    connect(source, job.closed_ns);
  }
}

Report report_of(Job job) {
  MemorySource source;
  fill(source, std::move(job));
  return small_job::report_of(source);
}

Finding only(Job job) {
  MemorySource source;
  fill(source, std::move(job));
  return small_job::only(source);
}

TEST(JobEnds, ARankThatRaisedClosesItsSocketsFirst) {
  const Finding finding = only({failing({2}, kClosedNs + 5 * kNsPerMs), rank_2_ends(1), kClosedNs});
  expect_culprit(finding, Cause::kDeadRank, 2);
  EXPECT_EQ(finding.severity, Severity::kCritical);
  EXPECT_TRUE(finding.ended_job);
  expect_golden_text("dead_rank: a rank that raised", finding);
}

PythonException raised(int rank, int64_t time_ns, int64_t stack, const std::string& type = "ValueError") {
  return {.node_id = node_of_rank(rank),
          .timestamp_ns = time_ns,
          .pid = 10 + rank,
          .tid = 10 + rank,
          .type = type,
          .stack_id = stack,
          .depth = 3};
}

void add_tracebacks(MemorySource& source) {
  const std::string outer = "\ntrain (/home/u/train.py:88)\n<module> (/home/u/train.py:120)";
  source.accept(Stack{1, "load_batch (/home/u/data.py:212)" + outer});
  source.accept(Stack{2, "open (/usr/lib/python3.11/pathlib.py:1044)\nload_batch (/home/u/data.py:210)" + outer});
}

TEST(JobEnds, TheLineThatRaised) {
  MemorySource source;
  fill(source, {failing({2}, kClosedNs + 5 * kNsPerMs), rank_2_ends(1), kClosedNs});
  add_tracebacks(source);
  source.accept(raised(2, kClosedNs - 50 * kNsPerMs, 1));
  source.accept(raised(0, kOthersExitNs - kNsPerMs, 2, "RuntimeError"));  // because of it
  const Finding finding = small_job::only(source);
  expect_culprit(finding, Cause::kDeadRank, 2);
  expect_golden_text("dead_rank: the line that raised", finding);
}

TEST(JobEnds, OnlyWhatEndedTheProcessIsCalledItsException) {
  for (const auto& change : std::vector<std::function<void(PythonException&)>>{
           [](PythonException& row) { row.tid = 99; },                               // another thread's
           [](PythonException& row) { row.timestamp_ns -= 2 * 60 * kNsPerSecond; },  // long before
           [](PythonException& row) { row.timestamp_ns = kExitNs + kNsPerMs; },      // of a later process
       }) {
    MemorySource source;
    fill(source, {failing({2}, kClosedNs + 5 * kNsPerMs), rank_2_ends(1), kClosedNs});
    add_tracebacks(source);
    PythonException row = raised(2, kClosedNs - 50 * kNsPerMs, 1);
    change(row);
    source.accept(row);
    const Finding finding = small_job::only(source);
    expect_culprit(finding, Cause::kDeadRank, 2);
    EXPECT_EQ(count_of_kind(finding, "python_exception"), 0);
  }
}

/// An extension printed it, and the program went on to its end.
TEST(JobEnds, AnExceptionThatWasPrintedDidNotEndAProcessWithExitCode0) {
  MemorySource source;
  fill(source, {failing({2}, kClosedNs + 5 * kNsPerMs), rank_2_ends(0), kClosedNs});
  add_tracebacks(source);
  source.accept(raised(2, kClosedNs - 50 * kNsPerMs, 1));
  const Finding finding = small_job::only(source);
  expect_culprit(finding, Cause::kDeadRank, 2);
  EXPECT_EQ(count_of_kind(finding, "python_exception"), 0);
  EXPECT_EQ(finding.summary.find("ValueError"), std::string::npos) << finding.summary;
}

/// Its agent saw the end, and not how: that is no failure.
TEST(JobEnds, AnExceptionIsNotWhatEndedAProcessWhoseExitCodeIsNotKnown) {
  for (const bool known : {true, false}) {
    MemorySource source;
    Job job{failing({2}, kClosedNs + 5 * kNsPerMs), rank_2_ends(1), kClosedNs};
    job.exits = [known, ends = job.exits](int rank, Process& process) {
      ends(rank, process);
      if (rank == 2 && !known) {
        process.exit_code.reset();
      }
    };
    fill(source, std::move(job));
    add_tracebacks(source);
    source.accept(raised(2, kClosedNs - 50 * kNsPerMs, 1));
    const LoadedJob loaded(std::move(source));
    const auto& members = loaded.cluster.members();
    const auto rank_2 = std::ranges::find(members, 12, &Member::pid);
    ASSERT_NE(rank_2, members.end());
    const auto member = static_cast<MemberIndex>(rank_2 - members.begin());
    EXPECT_EQ(loaded.raised.that_ended(loaded.cluster, member) != nullptr, known);
  }
}

TEST(JobEnds, WhereAProgramCalledSysExit) {
  MemorySource source;
  fill(source, {failing({2}, kClosedNs + 5 * kNsPerMs), rank_2_ends(0), kClosedNs});
  add_tracebacks(source);
  source.accept(raised(2, kClosedNs - 50 * kNsPerMs, 2, "SystemExit"));
  const Finding finding = small_job::only(source);
  golden::expect_text(finding.summary);
  golden::expect_text(evidence_of(finding, "python_exception").text);
}

TEST(JobEnds, RanksThatRaiseTogetherAreFoldedByLine) {
  MemorySource source;
  fill(source, {stopping(),
                [](int rank, Process& process) { fail_at(process, kExitNs + 20 * ((rank + 2) % kRanks) * kNsPerMs); }});
  add_tracebacks(source);
  for (int rank = 0; rank < kRanks; ++rank) {
    source.accept(raised(rank, kExitNs - 50 * kNsPerMs, rank == 3 ? 2 : 1));
  }
  const Finding finding = small_job::only(source);
  EXPECT_FALSE(finding.culprit.has_value());
  golden::expect_text(evidence_of(finding, "python_exception").text);
  EXPECT_EQ(evidence_of(finding, "python_exception").count, kRanks);
}

/// Its interpreter waits for a thread that does not end.
TEST(JobEnds, ARankThatRaisedAndDoesNotEndIsMissing) {
  MemorySource source;
  small_job::fill(source, hang({2}));
  add_tracebacks(source);
  source.accept(raised(2, kLastArrivalNs + 10 * kNsPerMs, 1));
  const Finding finding = small_job::only(source);
  expect_culprit(finding, Cause::kMissingCollective, 2);
  golden::expect_text(finding.summary);
}

TEST(JobEnds, WithoutItsSocketsTheOrderOfExitsDecides) {
  expect_culprit(only({failing({2}, kClosedNs), rank_2_ends(1)}), Cause::kDeadRank, 2);
  // It ended long after the other ranks' calls had failed: not because of it.
  const Report report = report_of({failing({2}, kClosedNs), rank_2_ends(1, kClosedNs + 3 * kNsPerSecond)});
  EXPECT_TRUE(report.healthy) << reported(report);
  EXPECT_EQ(report.failed_ranks, kRanks);
}

/// Each AllReduce takes 30 ms: the clocks of the two hosts are known to no less.
TEST(JobEnds, ClocksThatAreOffByMoreThanAStallShowWhoEndedFirst) {
  Ending ending = failing({2}, kClosedNs + 5 * kNsPerMs);
  ending.call = [fail = ending.call](int rank, int64_t step, Collective& call) {
    call.duration_ns = 30 * kNsPerMs;
    return fail(rank, step, call);
  };
  ending.node = [](int rank, Node& node) { node.boot_id = rank < 2 ? "one boot" : "other boot"; };
  expect_culprit(only({ending, rank_2_ends(1), kClosedNs}), Cause::kDeadRank, 2);
}

TEST(JobEnds, ARankThatLeavesWithSuccessWhileOthersWait) {
  const Finding finding = only({failing({2}, kClosedNs + 5 * kNsPerMs), rank_2_ends(0), kClosedNs});
  expect_culprit(finding, Cause::kDeadRank, 2);
  expect_golden_text("dead_rank: a rank that left with success", finding);
}

TEST(JobEnds, AWaitHoweverLongForARankThatRaisesIsNoHang) {
  const int64_t late_ns = 30 * kNsPerSecond;
  const Finding finding = only({failing({2}, kClosedNs + late_ns + kNsPerMs),
                                rank_2_ends(1, kExitNs + late_ns, kOthersExitNs + late_ns), kClosedNs + late_ns});
  expect_culprit(finding, Cause::kDeadRank, 2);
  EXPECT_TRUE(finding.ended_job);
  EXPECT_NEAR(finding.stall_ms, 30'100, 100);
  golden::expect_text(finding.summary);
}

TEST(JobEnds, ALauncherThatEndsTheOthersIsNotToBlame) {
  const Exit exits = [](int rank, Process& process) {
    rank == 2 ? fail_at(process, kExitNs) : exit_at(process, kExitNs + (10 + rank) * kNsPerMs, rank == 0 ? 9 : 15);
  };
  expect_culprit(only({hang({2}), exits}), Cause::kDeadRank, 2);  // they wait
  const Finding finding = only({stopping(), exits});              // they compute
  expect_culprit(finding, Cause::kDeadRank, 2);
  EXPECT_EQ(finding.collectives_affected, 0);
  expect_golden_text("dead_rank: while no rank waited", finding);
}

TEST(JobEnds, RanksThatFailTogetherAreAllNamed) {
  const Finding finding = only({stopping(), [](int rank, Process& process) {
                                  fail_at(process, kExitNs + 20 * ((rank + 2) % kRanks) * kNsPerMs);
                                }});
  EXPECT_EQ(finding.cause, Cause::kDeadRank);
  EXPECT_FALSE(finding.culprit.has_value());
  expect_golden_text("dead_rank: several at once", finding);
}

TEST(JobEnds, SomeThatFailTogetherAreNamedWithoutThoseThatWereEnded) {
  const Finding finding =
      only({stopping(), [](int rank, Process& process) {
              rank < 2 ? fail_at(process, kExitNs + rank * kNsPerMs) : exit_at(process, kExitNs + 20 * kNsPerMs, 15);
            }});
  EXPECT_FALSE(finding.culprit.has_value());
  golden::expect_text(finding.summary);
}

TEST(JobEnds, AJobThatEndsInGoodOrderIsHealthy) {
  const Report report = report_of({stopping(), [](int rank, Process& process) {
                                     process.exit_ns = kExitNs + rank * 100 * kNsPerMs;
                                     process.exit_code = 0;
                                   }});
  EXPECT_TRUE(report.healthy) << reported(report);
  EXPECT_EQ(report.failed_ranks, 0);
  EXPECT_TRUE(report.notes.empty());
}

TEST(JobEnds, AFailureAfterTheLastCollectiveIsANote) {
  const Report report = report_of({stopping(), [](int rank, Process& process) {
                                     process.exit_ns = kExitNs + rank * 100 * kNsPerMs;
                                     process.exit_code = rank == 1 ? 1 : 0;
                                   }});
  EXPECT_TRUE(report.healthy) << reported(report);
  EXPECT_EQ(report.failed_ranks, 1);
  ASSERT_EQ(report.notes.size(), 1U);
  golden::expect_text(report.notes[0]);
}

TEST(JobEnds, ARankThatTheOthersGaveUpIsNotTheFirst) {
  const int64_t timeout_ns = kLastArrivalNs + 30 * kNsPerSecond;
  for (const bool asked : {true, false}) {
    Exit exits = rank_2_ends(1, timeout_ns + 2 * kNsPerSecond, timeout_ns + 500 * kNsPerMs);
    if (asked) {
      exits = [inner = exits](int rank, Process& process) {
        inner(rank, process);
        if (rank == 2) {
          process.exit_code.reset();
          process.exit_signal = 15;
        }
      };
    }
    const Finding finding = only({failing({2}, timeout_ns), exits, timeout_ns + 2 * kNsPerSecond - kNsPerMs});
    expect_culprit(finding, Cause::kMissingCollective, 2);
  }
}

TEST(JobEnds, CallsThatFailOnAllRanksNameNoRank) {
  const Report report = report_of(
      {failing({}, kClosedNs), [](int rank, Process& process) { fail_at(process, kExitNs + rank * kNsPerMs); }});
  EXPECT_TRUE(report.healthy) << reported(report);
  EXPECT_EQ(report.failed_ranks, kRanks);
  ASSERT_EQ(report.notes.size(), 1U);
  golden::expect_text(report.notes[0]);
}

TEST(JobEnds, ARankThatHungAndWasKilledByHandHung) {
  const int64_t killed_ns = kLastArrivalNs + 30 * kNsPerSecond;
  const Report report =
      report_of({failing({2}, killed_ns + kNsPerMs), [=](int rank, Process& process) {
                   rank == 2 ? exit_at(process, killed_ns, 9) : fail_at(process, killed_ns + kNsPerSecond / 2);
                 }});
  expect(report, Cause::kMissingCollective, 2);
}

TEST(JobEnds, AnExitCodeThatStandsForASignalToEndIsNoFailure) {
  const Report report = report_of({stopping(), [](int rank, Process& process) {
                                     fail_at(process, kExitNs + rank * kNsPerMs);
                                     process.exit_code = 143;
                                   }});
  EXPECT_TRUE(report.healthy) << reported(report);
  EXPECT_EQ(report.failed_ranks, 0);
}

TEST(JobEnds, WhatEndedTheJobIsReportedBeforeWhatCostMore) {
  Job job{failing({2}, kClosedNs), rank_2_ends(1), kClosedNs};
  job.ending.call = [inner = job.ending.call](int rank, int64_t step, Collective& call) {
    const int64_t late_ns = step > 20 && step < kSteps - 1 ? 30 * kNsPerMs : 0;
    call.timestamp_ns += rank == 1 ? late_ns : 0;
    *call.duration_ns += rank == 1 ? 0 : late_ns;
    return inner(rank, step, call);
  };
  const Report report = report_of(job);
  ASSERT_EQ(report.findings.size(), 2U) << reported(report);
  expect_culprit(report.findings[0], Cause::kDeadRank, 2);
  EXPECT_LT(report.findings[0].stall_ms, report.findings[1].stall_ms);
}

/// The view of profiler files, and the result of ending a whole job.
TEST(JobEnds, EndsWithoutAWayAndAJobThatIsKilledNameNoRank) {
  for (const bool killed : {false, true}) {
    const Report report = report_of({stopping(), [=](int rank, Process& process) {
                                       exit_at(process, kExitNs + rank * 2 * kNsPerSecond, 9);
                                       process.exit_signal = killed ? process.exit_signal : std::nullopt;
                                     }});
    EXPECT_TRUE(report.healthy) << reported(report);
    EXPECT_EQ(report.failed_ranks, 0);
  }
}

TEST(JobEnds, ACrashInsideACallIsTheFirstUnlessOthersCrashAlike) {
  for (const int32_t signal_of_others : {6, 11}) {
    const Report report = report_of({hang(), [=](int rank, Process& process) {
                                       exit_at(process, kLastArrivalNs + (10 + 800 * (rank != 2)) * kNsPerMs,
                                               rank == 2 ? 11 : signal_of_others);
                                     }});
    ASSERT_EQ(report.findings.size(), 1U);
    expect_culprit(report.findings[0], Cause::kDeadRank, 2);  // decided by the length of the wait, if they crash alike
    golden::expect_text(report.findings[0].summary);
  }
}

/// Two jobs one after the other with one communicator name: the second is no part of the first one's end.
TEST(JobEnds, ProcessesOfAnotherTimeAreNotAsked) {
  MemorySource source;
  fill(source, {stopping(), [](int rank, Process& process) {
                  process.exit_ns = kExitNs + rank * kNsPerMs;
                  process.exit_code = 0;
                }});
  for (int rank = 0; rank < kRanks; ++rank) {
    Process process{.node_id = node_of_rank(rank), .pid = 50 + rank, .exe = "/opt/job/train"};
    process.rank = rank;
    process.exit_ns = kExitNs + 30 * kNsPerSecond + rank * kNsPerMs;
    process.exit_code = rank == 3 ? 1 : 0;
    source.accept(process);
    Collective call = call_of(rank, 0);
    call.event_id = make_event_id(call.node_id, 9'000'000);
    call.pid = call.tid = 50 + rank;
    call.comm_ptr += 1;
    call.timestamp_ns += 20 * kNsPerSecond;
    source.accept(call);
  }
  const Report report = small_job::report_of(source);
  EXPECT_EQ(report.failed_ranks, 1);
  for (const Finding& finding : report.findings) {
    EXPECT_NE(finding.cause, Cause::kDeadRank) << finding.summary;
  }
}

}  // namespace
}  // namespace stalltrace::analysis
