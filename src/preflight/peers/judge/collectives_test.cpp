// SPDX-License-Identifier: Apache-2.0
#include "preflight/peers/judge/collectives.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "preflight/output.h"
#include "preflight/peers/collectives/operations.h"
#include "tests/support/golden_text.h"

namespace stalltrace::preflight {
namespace {

using Kind = CollectiveFault::Kind;

constexpr int64_t kLarge = 64 << 20;

/// Ranks on nodes of their own, which reach 1 GB/s by TCP, and 0.8 GB/s on the bus of an AllReduce.
LaunchResults measured(int32_t count) {
  LaunchResults results{.world_size = count};
  results.collectives = CollectiveResults{.ranks = count, .max_bytes = kLarge};
  for (int32_t i = 0; i < count; ++i) {
    results.nodes.push_back({.name = fmt::format("gpu{:02}", i), .line_mbit = 10'000, .first_rank = i});
    results.ranks.push_back({.rank = i, .node = i});
    results.collectives->versions[22809].push_back(i);
    for (int32_t to = 0; to < count; ++to) {
      if (to != i) {
        results.pairs.push_back(
            {.from = i, .to = to, .alone = Flow{.bytes = 1'000'000'000, .duration_ns = kNsPerSecond}});
      }
    }
  }
  const double share = busbw(kAllReduce, count, 1, 1);
  results.collectives->times = {{.operation = kAllReduce, .bytes = 8, .calls = 20, .average_ns = 30'000},
                                {.operation = kAllReduce,
                                 .bytes = kLarge,
                                 .calls = 20,
                                 .average_ns = static_cast<int64_t>(static_cast<double>(kLarge) * share / 0.8)}};
  return results;
}

const HostCheck* only_fault(const std::vector<HostCheck>& checks) {
  const HostCheck* found = nullptr;
  for (const HostCheck& one : checks) {
    EXPECT_EQ(one.check, "collectives");
    if (one.outcome != Outcome::kOk) {
      EXPECT_EQ(found, nullptr) << one.detail;
      found = &one;
    }
  }
  return found;
}

TEST(JudgeCollectives, HealthyOnesAreOkWithTheirNumbers) {
  EXPECT_TRUE(judge_collectives(LaunchResults{}).empty());
  const auto checks = judge_collectives(measured(4));
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_EQ(checks[0].outcome, Outcome::kOk);
  golden::expect_text(checks_text(checks));
}

TEST(JudgeCollectives, WrongResultsFail) {
  LaunchResults results = measured(4);
  results.collectives->wrong = {{.operation = kAllReduce, .bytes = 32, .rank = 2, .elements = 5},
                                {.operation = 1, .bytes = 32, .rank = 2, .elements = 8}};
  const auto checks = judge_collectives(results);
  const HostCheck* fault = only_fault(checks);
  ASSERT_NE(fault, nullptr);
  EXPECT_EQ(fault->outcome, Outcome::kFailed);
  EXPECT_EQ(fault->subject, "rank 2 on gpu02");
  golden::expect_text(checks_text(checks));
}

TEST(JudgeCollectives, AMissingLibraryIsOneLineAndAFaultOnlyWhereOthersHaveIt) {
  LaunchResults results = measured(3);
  results.collectives->times.clear();
  for (int32_t rank = 0; rank < 3; ++rank) {
    results.collectives->faults.push_back({.kind = Kind::kNotReady,
                                           .rank = rank,
                                           .step = "the loading of the library",
                                           .detail = "libnccl.so.2: no such file"});
  }
  auto checks = judge_collectives(results);
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_EQ(checks[0].outcome, Outcome::kUnknown);
  EXPECT_EQ(checks[0].subject, "");
  golden::expect_text(checks_text(checks));
  results.collectives->faults.erase(results.collectives->faults.begin());
  checks = judge_collectives(results);
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_EQ(checks[0].outcome, Outcome::kFailed);
  EXPECT_EQ(checks[0].subject, "ranks 1 on gpu01, 2 on gpu02");
  golden::expect_text(checks_text(checks));
}

TEST(JudgeCollectives, AnErrorIsNamedAndThoseThatWaitForThatRankAreCounted) {
  LaunchResults results = measured(4);
  results.collectives->faults = {
      {.kind = Kind::kUnfinished, .rank = 0, .step = "AllReduce of 8 B", .detail = "late"},
      {.kind = Kind::kError, .rank = 3, .step = "AllReduce of 8 B", .detail = "ncclRemoteError"},
      {.kind = Kind::kUnfinished, .rank = 1, .step = "AllReduce of 8 B", .detail = "late"}};
  const auto checks = judge_collectives(results);
  const HostCheck* fault = only_fault(checks);
  ASSERT_NE(fault, nullptr);
  EXPECT_EQ(fault->outcome, Outcome::kFailed);
  EXPECT_EQ(fault->subject, "rank 3 on gpu03");
  golden::expect_text(checks_text(checks));
}

TEST(JudgeCollectives, WhereAProgramCrashedTheErrorsOfTheOthersAreOfThat) {
  LaunchResults results = measured(4);
  results.collectives->faults = {
      {.kind = Kind::kError, .rank = 0, .step = "AllReduce of 8 B", .detail = "ncclRemoteError"},
      {.kind = Kind::kEnded, .rank = 1, .step = "AllReduce of 8 B", .detail = "signal 11"},
      {.kind = Kind::kUnfinished, .rank = 2, .step = "AllReduce of 8 B", .detail = "late"}};
  const auto checks = judge_collectives(results);
  const HostCheck* fault = only_fault(checks);
  ASSERT_NE(fault, nullptr);
  EXPECT_EQ(fault->subject, "rank 1 on gpu01");
  golden::expect_text(checks_text(checks));
}

TEST(JudgeCollectives, WhoNeverEndedIsNamed) {
  LaunchResults results = measured(4);
  const auto unfinished = [](int32_t rank, bool launched) {
    return CollectiveFault{.kind = Kind::kUnfinished,
                           .rank = rank,
                           .step = "Reduce of 32 B",
                           .detail = "did not end within 1 m",
                           .launched = launched};
  };
  results.collectives->faults = {unfinished(1, true)};
  auto checks = judge_collectives(results);
  EXPECT_EQ(only_fault(checks)->subject, "rank 1 on gpu01");
  golden::expect_text(checks_text(checks));
  results.collectives->faults = {unfinished(0, true), unfinished(1, true), unfinished(2, false), unfinished(3, true)};
  checks = judge_collectives(results);
  EXPECT_EQ(only_fault(checks)->subject, "rank 2 on gpu02");
  golden::expect_text(checks_text(checks));
  for (CollectiveFault& fault : results.collectives->faults) {
    fault.launched = true;
  }
  checks = judge_collectives(results);
  EXPECT_EQ(only_fault(checks)->subject, "all ranks");
  golden::expect_text(checks_text(checks));
}

TEST(JudgeCollectives, ALowBandwidthIsAWarningWithItsLink) {
  LaunchResults results = measured(4);
  results.collectives->times.back().average_ns *= 100;
  auto checks = judge_collectives(results);
  const HostCheck* fault = only_fault(checks);
  ASSERT_NE(fault, nullptr) << "the library is far below the network";
  EXPECT_EQ(fault->outcome, Outcome::kWarning);
  golden::expect_text(checks_text(checks));
  for (TestedNode& node : results.nodes) {
    node.line_mbit = 0;
  }
  checks = judge_collectives(results);
  EXPECT_EQ(only_fault(checks), nullptr) << "virtual interfaces have the speed of the CPUs";
  for (PairResult& pair : results.pairs) {
    if (pair.from == 1) {
      pair.alone->bytes /= 100;
    }
  }
  checks = judge_collectives(results);
  fault = only_fault(checks);
  ASSERT_NE(fault, nullptr);
  EXPECT_EQ(fault->outcome, Outcome::kWarning);
  golden::expect_text(checks_text(checks));
  results.collectives->times.back().bytes = 1024;  // latency, not bandwidth
  checks = judge_collectives(results);
  EXPECT_EQ(only_fault(checks), nullptr);
}

TEST(JudgeCollectives, OtherVersionsAndTooFewRanksAreReported) {
  LaunchResults results = measured(3);
  results.collectives->versions = {{22809, {0, 2}}, {22703, {1}}};
  auto checks = judge_collectives(results);
  ASSERT_NE(only_fault(checks), nullptr);
  EXPECT_EQ(only_fault(checks)->outcome, Outcome::kWarning);
  golden::expect_text(checks_text(checks));
  LaunchResults alone = measured(1);
  alone.collectives->times.clear();
  checks = judge_collectives(alone);
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_EQ(checks[0].outcome, Outcome::kUnknown);
}

}  // namespace
}  // namespace stalltrace::preflight
