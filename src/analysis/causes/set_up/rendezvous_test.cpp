// SPDX-License-Identifier: Apache-2.0
// Jobs whose ranks did not meet: the culprit and the evidence.
#include "analysis/causes/set_up/rendezvous.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/launched_job.h"

namespace stalltrace::analysis {
namespace {

TEST(Rendezvous, AnotherPortIsNamed) {
  SetUpRows job;
  Process other = job.process(1);
  other.settings = SetUpRows::settings("29999");
  for (const Process& process : {job.process(0), other, job.process(2)}) {
    job.start(process);
  }
  job.expect_silence();  // nothing failed yet
  job.connect(100, 29500);
  job.connect(102, 29500);
  job.connect(101, 29999, ECONNREFUSED, 8);
  job.set_up(102);
  expect_golden_text("init_failure: another port", job.failure_of(1));
}

/// A program can use another port than the one in its environment.
TEST(Rendezvous, AnotherPortThatTheEnvironmentDoesNotShow) {
  SetUpRows job;
  job.start_all();
  job.connect(100, 29500);
  job.connect(102, 29500);
  job.connect(101, 29999, ECONNREFUSED, 8);
  job.expect_silence();  // for such a short time any rank may try in vain
  job.connect(101, 29999, ECONNREFUSED, 12);
  expect_golden_text("init_failure: another port than its environment's", job.failure_of(1, Severity::kWaiting));
}

/// It met the others; another service refuses it.
TEST(Rendezvous, RefusalsOfOtherServicesAreNone) {
  SetUpRows job;
  job.start_all();
  for (const int32_t pid : {100, 101, 102}) {
    job.connect(pid, 29500);
  }
  job.connect(101, 9091, ECONNREFUSED, 12);
  job.expect_silence();
}

TEST(Rendezvous, RefusalsUntilTheStoreListensAreNone) {
  SetUpRows job;
  job.start_all();
  job.connect(101, 29500, ECONNREFUSED, 8);
  job.connect(101, 29500);
  job.expect_silence();
}

TEST(Rendezvous, AStoreThatNoProcessServes) {
  SetUpRows job;
  job.start(job.process(1));
  job.start(job.process(2));
  job.connect(101, 29500, ECONNREFUSED, 8);
  job.connect(102, 29500, ECONNREFUSED, 8);
  job.expect_silence();  // rank 0 may still be on its way
  job.connect(101, 29500, ECONNREFUSED, 12);
  job.own("10.0.0.1");
  const Finding finding = job.failure_of(0, Severity::kWaiting);
  EXPECT_EQ(finding.culprit.value_or(Culprit{}).pid, 0);
  expect_golden_text("init_failure: no store", finding);
}

/// Rank 0 and its node were not recorded: only the ranks that can't reach it are known, unless another one did reach
/// it.
TEST(Rendezvous, AStoreOnANodeThatWasNotRecorded) {
  for (const bool reached : {false, true}) {
    SetUpRows job;
    job.start(job.process(1));
    job.start(job.process(2));
    job.connect(102, 29500, EHOSTUNREACH, 12);
    if (reached) {
      job.connect(101, 29500);
      EXPECT_EQ(job.failure_of(2, Severity::kWaiting).cause, Cause::kInitFailure);
      continue;
    }
    const Report report = job.report();
    ASSERT_EQ(report.findings.size(), 1U);
    EXPECT_EQ(report.findings[0].severity, Severity::kWaiting);
    EXPECT_FALSE(report.findings[0].culprit.has_value());
    expect_golden_text("init_failure: a store elsewhere", report.findings[0]);
  }
}

TEST(Rendezvous, ARankThatGaveUpIsAFailureAtOnce) {
  SetUpRows job;
  Process rank1 = job.process(1);
  rank1.exit_ns = kOriginNs + 6 * kNsPerSecond;
  rank1.exit_code = 1;
  job.start(rank1);
  job.start(job.process(2));
  job.connect(101, 29500, ECONNREFUSED, 4);
  job.own("10.0.0.1");
  EXPECT_EQ(job.failure_of(0).cause, Cause::kInitFailure);
}

TEST(Rendezvous, AStoreThatIsNotReached) {
  SetUpRows job;
  job.start_all();
  job.connect(100, 29500);
  job.connect(102, 29500, EHOSTUNREACH, 12);
  expect_golden_text("init_failure: the store is not reached", job.failure_of(2, Severity::kWaiting));
}

TEST(Rendezvous, ARankThatWasStartedTwice) {
  SetUpRows job;
  Process twin = job.process(1);
  twin.pid = 102;
  for (const Process& process : {job.process(0), job.process(1), twin}) {
    job.start(process);
  }
  for (const int32_t pid : {100, 101, 102}) {
    job.connect(pid, 29500);
    job.set_up(pid);
  }
  expect_golden_text("init_failure: a rank twice", job.failure_of(1));
}

/// It has its parent's variables, but is an independent process.
TEST(Rendezvous, AChildIsNoSecondRank) {
  SetUpRows job;
  job.start_all();
  Process child = job.process(1);
  child.pid = 201;
  child.start_ns += 2 * kNsPerSecond;
  child.exit_ns = child.start_ns + kNsPerSecond;
  child.exit_code = 1;
  job.start(child);
  child.pid = 202;  // the next process
  child.start_ns += 2 * kNsPerSecond;
  child.exit_ns = child.start_ns + kNsPerSecond;
  job.start(child);
  for (const int32_t pid : {100, 101, 102}) {
    job.connect(pid, 29500);
  }
  job.connect(201, 443);
  job.set_up(100, 13 * kNsPerSecond);
  job.expect_silence();
}

TEST(Rendezvous, ARankThatEnded) {
  SetUpRows job;
  Process ended = SetUpRows::ended(job.process(1), 1500 * kNsPerMs, 1);
  ended.settings += "\nGLOO_SOCKET_IFNAME=nonesuch";
  for (const Process& process : {job.process(0), ended, job.process(2)}) {
    job.start(process);
  }
  job.set_up(100);
  job.set_up(102);
  expect_golden_text("init_failure: a rank ended", job.failure_of(1));
}

TEST(Rendezvous, ARankThatWasNeverStarted) {
  for (const int64_t seen_ns : {8 * kNsPerSecond, 20 * kNsPerSecond, 40 * kNsPerSecond}) {
    SetUpRows job(seen_ns);
    job.start(job.process(0));
    job.start(job.process(1));
    job.connect(101, 29500);
    job.set_up(101);
    if (seen_ns < 13 * kNsPerSecond) {
      job.expect_silence();
    } else {
      const bool long_ago = seen_ns > 33 * kNsPerSecond;
      const Finding finding = job.failure_of(2, long_ago ? Severity::kCritical : Severity::kWaiting);
      expect_golden_text(long_ago ? "init_failure: never started" : "init_failure: not started yet", finding);
    }
  }
}

/// Rank 2 does not reach an address of the communicator, which rank 1 may have announced on a node of its own.
TEST(Rendezvous, ARankThatWasNotSeenIsNotBlamedWhereAnotherReachesNoRank) {
  for (const bool reaches : {true, false}) {
    SetUpRows job(40 * kNsPerSecond);
    for (const int32_t rank : {0, 2}) {
      job.start(job.process(rank));
      job.connect(100 + rank, 29500);
      job.set_up(100 + rank);
    }
    job.connect(102, 40123, reaches ? 0 : ECONNREFUSED, 12, 1, "10.0.0.7");
    const Report report = job.report();
    ASSERT_EQ(report.findings.size(), 1U);
    const Finding& finding = report.findings.front();
    EXPECT_EQ(finding.cause, Cause::kInitFailure);
    EXPECT_EQ(finding.culprit.has_value(), reaches) << finding.summary;
  }
}

/// The whole job was ended from outside.
TEST(Rendezvous, RanksThatEndTogetherAreMissedByNoRank) {
  SetUpRows job;
  for (int32_t rank = 0; rank < kWorld; ++rank) {
    Process process = job.process(rank);
    process.exit_ns = process.start_ns + 5 * kNsPerSecond + rank * kNsPerMs;
    process.exit_signal = 9;
    job.start(process);
    job.connect(process.pid, 29500);
    job.set_up(process.pid);
  }
  job.expect_silence();
}

/// A rank that exits in good order while the others wait is missed as well.
TEST(Rendezvous, ARankThatLeftInGoodOrderIsMissed) {
  SetUpRows job;
  const Process left = SetUpRows::ended(job.process(1), 1500 * kNsPerMs, 0);
  for (const Process& process : {job.process(0), left, job.process(2)}) {
    job.start(process);
  }
  job.set_up(100);
  const Finding finding = job.failure_of(1);
  expect_golden_text("init_failure: a rank that left in good order", finding);
  EXPECT_EQ(std::ranges::count(finding.evidence, "process", &Evidence::kind), 1);
}

TEST(Rendezvous, AProgramThatEndsAfterItsCommunicatorsWereMadeIsNoSetUp) {
  SetUpRows job;
  const Process ended = SetUpRows::ended(job.process(1), 5 * kNsPerSecond, 1);
  for (const Process& process : {job.process(0), ended, job.process(2)}) {
    job.start(process);
    job.set_up(process.pid, 2 * kNsPerSecond, kNsPerSecond);
  }
  job.set_up(102, 8 * kNsPerSecond);
  job.expect_silence();
}

/// It uses this name for its own host; the others use its address.
TEST(Rendezvous, LocalhostOnRank0IsNoDifferenceThatMatters) {
  SetUpRows job;
  job.start_all(SetUpRows::settings("29500", "localhost"));
  for (int32_t rank = 0; rank < kWorld; ++rank) {
    job.connect(100 + rank, 29500);
    job.set_up(100 + rank, 10 * kNsPerSecond);
  }
  job.expect_silence();
}

TEST(Rendezvous, AnotherPortOnRank0KeepsTheOthersAway) {
  SetUpRows job;
  job.start_all(SetUpRows::settings("29501"));
  job.connect(100, 29501);
  job.connect(101, 29500, ECONNREFUSED, 4);
  job.connect(102, 29500, ECONNREFUSED, 4);
  expect_golden_text("init_failure: another port on rank 0", job.failure_of(0));
}

TEST(Rendezvous, CallsThatAreNotInTheSourceCount) {
  for (const bool lost : {false, true}) {
    SetUpRows job;
    job.start(job.process(0));
    job.start(job.process(1));
    job.set_up(101);
    if (lost) {
      job.lose("pruned:collective");
    }
    const Report report = job.report(lost ? std::set<ProcessKey>() : std::set<ProcessKey>{{1, 100}});
    EXPECT_TRUE(report.findings.empty()) << report.findings.front().summary;
  }
}

TEST(Rendezvous, JobsThatCalledAreSetUp) {
  SetUpRows job;
  const Process ended = SetUpRows::ended(job.process(1), 5 * kNsPerSecond, 1);
  for (const Process& process : {job.process(0), ended, job.process(2)}) {
    job.start(process);
    job.reduce(process.pid);
  }
  job.connect(102, 29999, ECONNREFUSED, 8);
  for (const Finding& finding : job.report().findings) {
    EXPECT_NE(finding.cause, Cause::kInitFailure) << finding.summary;
  }
}

/// Their earlier activity is unknown: they may have been set up long ago.
TEST(Rendezvous, RanksThatWereThereBeforeTheRecordingAreNotJudged) {
  SetUpRows job;
  for (int32_t rank = 0; rank < kWorld; ++rank) {
    Process process = job.process(rank);
    process.start_ns = kOriginNs - kNsPerSecond;
    job.start(process);
  }
  job.connect(101, 29500, ECONNREFUSED, 8);
  job.expect_silence();
}

/// Two jobs, each with its own address.
TEST(Rendezvous, AnotherJobIsNoDifference) {
  SetUpRows job;
  job.start_all();
  for (int32_t rank = 0; rank < kWorld; ++rank) {
    Process process = job.process(rank);
    process.pid += 100;
    process.settings = SetUpRows::settings("29600");
    if (rank == 2) {
      process.exit_ns = process.start_ns + kNsPerSecond;
      process.exit_code = 1;
    }
    job.start(process);
  }
  job.set_up(200);
  const Finding finding = job.failure_of(2);
  EXPECT_EQ(finding.culprit.value_or(Culprit{}).pid, 202);
  EXPECT_EQ(finding.summary.find("MASTER_PORT"), std::string::npos) << finding.summary;
}

}  // namespace
}  // namespace stalltrace::analysis
