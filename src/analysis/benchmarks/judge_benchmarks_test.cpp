// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "analysis/explain.h"
#include "model/events/imported_evidence.h"
#include "model/memory_source.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A run of 8 ranks over sizes of 8 B to 128 MiB, whose time is a constant and a share of the size.
struct TestRun {
  double slower = 1;
  std::function<double(int)> factor = [](int) { return 1.0; };  // by the size's power of two
  int last = 27;
  bool ended = true;
  std::string hosts = "node0 node1";
  std::string test = "all_reduce_perf";
  int wrong_at = -1;
  int32_t ranks = 8;
};

Report explained(const std::vector<TestRun>& runs) {
  MemorySource source;
  for (size_t i = 0; i < runs.size(); ++i) {
    const TestRun& run = runs[i];
    const auto node = static_cast<NodeId>(i + 1);
    Node row{.node_id = node, .name = fmt::format("{}.log", i), .agent_version = "nccl_tests"};
    row.missing_evidence = fmt::format("{} {}", kLacksDurations, kLacksCalls);
    source.accept(row);
    BenchmarkRun begun{.node_id = node, .run = 1, .started_ns = 5, .test = run.test, .nranks = run.ranks};
    begun.hosts = run.hosts;
    begun.most_bytes = int64_t{1} << 27;
    begun.ended = run.ended;
    begun.line = 3;
    begun.file = row.name;
    source.accept(begun);
    for (int power = 3; power <= run.last; ++power) {
      BenchmarkResult result{.node_id = node, .timestamp_ns = 5, .run = 1, .bytes = int64_t{1} << power};
      result.count = result.bytes / 4;
      result.datatype = "float";
      result.reduce_op = "sum";
      result.time_us = (12 + static_cast<double>(result.bytes) / 200'000) * run.slower * run.factor(power);
      result.algbw_gbs = static_cast<double>(result.bytes) / result.time_us / 1000;
      result.busbw_gbs = result.algbw_gbs * 2 * (run.ranks - 1) / run.ranks;
      result.wrong = power == run.wrong_at ? 4096 : 0;
      result.line = power + 10;
      source.accept(result);
    }
  }
  const auto result = explain(source);
  EXPECT_TRUE(result);
  return result ? result->report : Report();
}

TEST(Benchmarks, ARunAloneIsNotJudged) {
  const Report report = explained({{}});
  ASSERT_EQ(report.benchmarks.size(), 1U);
  const BenchmarkSummary& run = report.benchmarks[0];
  EXPECT_THAT(run.remarks, IsEmpty());
  EXPECT_EQ(run.results, 25);
  EXPECT_EQ(run.peak_bytes, int64_t{1} << 27);
  EXPECT_THAT(run.hosts, ElementsAre("node0", "node1"));
  EXPECT_EQ(report.health(), std::nullopt);
  EXPECT_TRUE(report.findings.empty());
  EXPECT_TRUE(report.notes.empty()) << fmt::format("{}", fmt::join(report.notes, "\n"));
}

TEST(Benchmarks, OneRankTransfersNothing) {
  TestRun alone;
  alone.ranks = 1;
  alone.hosts = "node0";
  const Report report = explained({alone});
  ASSERT_EQ(report.benchmarks.size(), 1U);
  EXPECT_GT(report.benchmarks[0].peak_bytes, 0);
  golden::expect_text(fmt::format("{}", fmt::join(report.benchmarks[0].remarks, "\n")));
}

TEST(Benchmarks, WrongElementsAreAFailure) {
  const Report report = explained({{.wrong_at = 20}});
  EXPECT_TRUE(report.benchmarks[0].failed);
  EXPECT_EQ(report.benchmarks[0].wrong_results, 1);
  EXPECT_EQ(report.health(), false);
  golden::expect_text(report.benchmarks[0].remarks.at(0));
}

TEST(Benchmarks, SizesOutOfLineWithTheirNeighbours) {
  // 2^24 takes longer than 2^25; 2^10 less than its double, but 1.9 times its like.
  const Report report = explained({{.factor = [](int power) { return power == 24 ? 3.0 : power == 10 ? 1.9 : 1.0; }}});
  ASSERT_EQ(report.benchmarks[0].remarks.size(), 2U);
  golden::expect_text(fmt::format("{}", fmt::join(report.benchmarks[0].remarks, "\n")));
  // A step of a quarter, where NCCL changes its protocol.
  EXPECT_THAT(explained({{.factor = [](int power) { return power >= 16 ? 1.25 : 1.0; }}}).benchmarks[0].remarks,
              IsEmpty());
}

TEST(Benchmarks, RunsOfOneTestAreCompared) {
  const Report report = explained({{}, {.slower = 1.6, .hosts = "node0 node7"}, {.slower = 1.05}});
  EXPECT_THAT(report.benchmarks[0].remarks, IsEmpty());
  golden::expect_text(report.benchmarks[1].remarks.at(0));
  ASSERT_EQ(report.benchmarks[2].remarks.size(), 1U);
  golden::expect_text(report.benchmarks[2].remarks[0]);
  EXPECT_THAT(report.notes, Contains(HasSubstr("node7")));
  EXPECT_FALSE(report.benchmarks[1].failed);
}

TEST(Benchmarks, OtherTestsAndNumbersOfRanksAreNot) {
  const Report report =
      explained({{}, {.slower = 2, .test = "all_gather_perf"}, {.slower = 2, .ranks = 16}, {.slower = 2, .last = 4}});
  EXPECT_THAT(report.benchmarks[1].remarks, IsEmpty());
  EXPECT_THAT(report.benchmarks[2].remarks, IsEmpty());
  ASSERT_EQ(report.benchmarks[3].remarks.size(), 1U);
  golden::expect_text(report.benchmarks[3].remarks[0]);
}

TEST(Benchmarks, ARunWithoutASummaryMayHaveHung) {
  const Report report = explained({{.last = 20, .ended = false}});
  EXPECT_FALSE(report.benchmarks[0].failed);
  golden::expect_text(report.benchmarks[0].remarks.at(0));
}

}  // namespace
}  // namespace stalltrace::analysis
