// SPDX-License-Identifier: Apache-2.0
// Which processes are one job, on one host and on several.
#include "analysis/causes/set_up/launched_jobs.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>

#include "analysis/rank_numbers.h"
#include "analysis/testing/golden_text.h"
#include "analysis/testing/launched_job.h"

namespace stalltrace::analysis {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

/// MASTER_PORT=$RANDOM in the command that starts each rank.
TEST(LaunchedJobs, EveryRankHasAPortOfItsOwn) {
  SetUpRows job;
  for (int32_t rank = 0; rank < kWorld; ++rank) {
    Process process = job.process(rank);
    process.settings = SetUpRows::settings(std::to_string(20000 + rank));
    job.start(process);
    job.connect(process.pid, static_cast<uint16_t>(20000 + rank), rank == 0 ? 0 : ECONNREFUSED, 8);
  }
  expect_golden_text("init_failure: a port for each rank", job.failure_of(2));
}

TEST(LaunchedJobs, AWorldSizeThatIsTooLargeOrTooSmall) {
  for (const int32_t wrong : {2, 5}) {
    SetUpRows job;
    for (int32_t rank = 0; rank < kWorld; ++rank) {
      Process process = job.process(rank);
      process.world_size = rank == 1 ? wrong : kWorld;
      process.settings = SetUpRows::settings("29500", "10.0.0.1", *process.world_size);
      job.start(process);
      job.connect(process.pid, 29500);
      job.set_up(process.pid);
    }
    const Finding finding = job.failure_of(1);
    expect_golden_text(wrong < kWorld ? "init_failure: a world size too small" : "init_failure: a world size too large",
                       finding);
  }
}

/// torchrun without options: the jobs of two hosts differ in nothing that their ranks were given.
TEST(LaunchedJobs, JobsOfTwoHostsThatLookAlike) {
  SetUpRows job;
  job.add_host(2);
  for (const NodeId node : {1, 2}) {
    for (int32_t rank = 0; rank < kWorld; ++rank) {
      Process process = job.process(rank, node);
      process.settings = SetUpRows::settings("29500", kLoopback);
      if (node == 1) {
        job.start(process);
        job.reduce(process.pid);
        continue;
      }
      job.start(rank == 1 ? SetUpRows::ended(process, kNsPerSecond, 1) : process);
      if (rank != 1) {
        job.set_up(process.pid, 3 * kNsPerSecond, std::nullopt, node);
      }
    }
  }
  EXPECT_EQ(job.failure_of(1).culprit.value_or(Culprit{}).node, "node2");
}

/// One job of two hosts, whose address leads each of them to itself.
TEST(LaunchedJobs, ALoopbackAddressOnTwoHosts) {
  SetUpRows job;
  job.add_host(2);
  for (int32_t rank = 0; rank < kWorld; ++rank) {
    const NodeId node = rank == 2 ? 2 : 1;
    Process process = job.process(rank, node);
    process.settings = SetUpRows::settings("29500", kLoopback);
    job.start(process);
    job.connect(process.pid, 29500, rank == 2 ? ECONNREFUSED : 0, rank == 2 ? 12 : 1, node, kLoopback);
  }
  expect_golden_text("init_failure: a loopback address on two hosts", job.failure_of(2, Severity::kWaiting));
}

/// The ranks of a node that lost calls are there; whether they called something is not known.
TEST(LaunchedJobs, RanksOfANodeThatLostCallsAreNotAbsent) {
  for (const char* source : {"ring:collective", "share:collective:1000", "share:process:1000",
                             "share:communicator:1000", "share:sequence:1000"}) {
    SCOPED_TRACE(source);
    SetUpRows job(40 * kNsPerSecond);
    job.add_host(2);
    job.start(job.process(0, 1));
    job.start(job.process(1, 2));
    job.start(job.process(2, 2));
    job.lose(source, 1);
    job.own("10.0.0.1");
    job.connect(101, 29500, ETIMEDOUT, 8, 2);
    job.expect_silence();
  }
}

/// A process all of whose libraries were left out is not recorded.
TEST(LaunchedJobs, ARankMayBeThereWhereLibrariesWereLeftOut) {
  SetUpRows job(40 * kNsPerSecond);
  job.start(job.process(0));
  job.start(job.process(1));
  job.lose("library:not_trusted");
  job.connect(101, 29500);
  job.set_up(101);
  job.expect_silence();
}

/// Of two hosts whose clocks nothing has aligned: the rank that failed is to blame, not the one that its launcher
/// ended.
TEST(LaunchedJobs, WhoEndedFirstIsNotKnownBetweenHosts) {
  SetUpRows job;
  job.add_host(2, 4 * kNsPerSecond);
  job.start(job.process(0, 1));
  job.start(SetUpRows::ended(job.process(1, 1), 8 * kNsPerSecond, 1));
  job.start(SetUpRows::killed(job.process(2, 2), 4 * kNsPerSecond, SIGTERM));
  job.set_up(100);
  expect_golden_text("init_failure: two ends on two hosts", job.failure_of(1));
}

TEST(LaunchedJobs, AJobThatWasEndedOnTwoHostsIsMissedByNoRank) {
  SetUpRows job;
  job.add_host(2, 4 * kNsPerSecond);
  for (int32_t rank = 0; rank < kWorld; ++rank) {
    const NodeId node = rank == 2 ? 2 : 1;
    const int64_t lived_ns = (rank == 2 ? 4 : 8) * kNsPerSecond;
    job.start(SetUpRows::killed(job.process(rank, node), lived_ns, SIGTERM));
    job.set_up(100 + rank, 3 * kNsPerSecond - (rank == 2 ? 3 * kNsPerSecond : 0), std::nullopt, node);
  }
  job.expect_silence();
}

/// A data loader or an exporter that a rank started, which has the rank's variables.
TEST(LaunchedJobs, AChildThatIsRefusedElsewhereIsNoRank) {
  SetUpRows job;
  job.start_all();
  Process child = job.process(1);
  child.pid = 201;
  child.start_ns += kNsPerSecond;
  job.start(SetUpRows::ended(child, 4 * kNsPerSecond, 1));
  job.connect(100, 29500);
  job.connect(102, 29500);
  job.connect(201, 9091, ECONNREFUSED, 4);
  job.expect_silence();
}

TEST(RankNumbers, AreListedOrAsARange) {
  EXPECT_EQ(ranks_text({1}), "rank 1");
  EXPECT_EQ(ranks_text({2, 0, 2}), "ranks 0 and 2");
  EXPECT_EQ(ranks_text({3, 4, 5, 6}), "ranks 3 to 6");
  std::vector<int32_t> even;
  for (int32_t rank = 0; rank < 40; rank += 2) {
    even.push_back(rank);
  }
  EXPECT_EQ(ranks_text(even), "ranks 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, ...");
}

TEST(RankNumbers, MissingOnesAreCountedWhateverTheWorldSize) {
  const MissingRanks many({0, 1}, 2'000'000'000);
  EXPECT_EQ(many.count(), 1'999'999'998);
  EXPECT_EQ(many.text(), "ranks 2 to 1999999999");
  EXPECT_EQ(MissingRanks({0, 1, 7}, 64).text(), "ranks 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, ...");
  EXPECT_EQ(MissingRanks({-1, 1}, 3).text(), "ranks 0 and 2");
  EXPECT_EQ(MissingRanks({0, 2}, 3).first(), 1);
  EXPECT_TRUE(MissingRanks({0, 1}, 2).empty());
}

}  // namespace
}  // namespace stalltrace::analysis
