// SPDX-License-Identifier: Apache-2.0
#include "analysis/traces/judge_traces.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/clock.h"
#include "model/memory_source.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

/// A trace of 4 steps of 100 ms: a time in computation, a time with nothing to do, and the rest in collectives.
struct TestTrace {
  int64_t compute_ms = 60;
  int64_t idle_ms = 5;
  int64_t overlap_ms = 0;
  std::optional<int32_t> rank;
  std::vector<int64_t> step_ms = {100, 100, 100, 100};
  bool on_device = true;
  int64_t started_ns = 5;
};

Report judged(const std::vector<TestTrace>& traces, int32_t world_size = 4) {
  MemorySource source;
  for (size_t i = 0; i < traces.size(); ++i) {
    const TestTrace& one = traces[i];
    TraceProfile row{.node_id = static_cast<NodeId>(i + 1),
                     .started_ns = one.started_ns,
                     .rank = one.rank,
                     .world_size = world_size};
    row.on_device = one.on_device;
    row.file = fmt::format("{}.json", i);
    for (const int64_t step_ms : one.step_ms) {
      TraceStep step{
          .node_id = row.node_id, .timestamp_ns = one.started_ns + row.duration_ns, .duration_ns = step_ms * kNsPerMs};
      step.step = row.steps++;
      step.compute_ns = one.compute_ms * kNsPerMs;
      step.idle_ns = one.idle_ms * kNsPerMs;
      step.overlap_ns = one.overlap_ms * kNsPerMs;
      step.communication_ns = step.duration_ns - step.compute_ns - step.idle_ns + step.overlap_ns;
      row.duration_ns += step.duration_ns;
      row.compute_ns += step.compute_ns;
      row.idle_ns += step.idle_ns;
      row.overlap_ns += step.overlap_ns;
      row.communication_ns += step.communication_ns;
      source.accept(step);
    }
    source.accept(row);
    for (int32_t number = 1; number <= 10; ++number) {
      source.accept(TraceCollective{
          .node_id = row.node_id, .number = number, .op = "all_reduce", .calls = 1, .exposed_ns = number});
    }
  }
  Report report;
  EXPECT_TRUE(add_profiles(source, report));
  return report;
}

TEST(Traces, ExposedTimeIsWhatNoComputationHides) {
  const Report report = judged({{.overlap_ms = 30, .rank = 0}}, 1);
  ASSERT_EQ(report.profiles.size(), 1U);
  const ProfileSummary& one = report.profiles[0];
  EXPECT_EQ(one.communication_ns, 4 * 65 * kNsPerMs);
  EXPECT_EQ(one.exposed_ns, 4 * 35 * kNsPerMs);
  EXPECT_TRUE(one.remarks.empty());
  ASSERT_EQ(one.collectives.size(), 8U);
  EXPECT_EQ(one.collectives[0].exposed_ns, 10);
  EXPECT_EQ(one.more_collectives, 2);
  EXPECT_TRUE(report.notes.empty());
}

TEST(Traces, RanksThatAreAlikeAreNotJudged) {
  const Report report =
      judged({{.compute_ms = 62, .rank = 0}, {.rank = 1}, {.rank = 2}, {.compute_ms = 58, .rank = 3}});
  for (const ProfileSummary& one : report.profiles) {
    EXPECT_TRUE(one.remarks.empty());
  }
}

TEST(Traces, ARankThatComputesLonger) {
  const Report report = judged({{.rank = 3}, {.compute_ms = 85, .rank = 2}, {.rank = 1}, {.rank = 0}});
  ASSERT_EQ(report.profiles.size(), 4U);
  EXPECT_EQ(report.profiles[2].rank, 2);
  for (const ProfileSummary& one : report.profiles) {
    EXPECT_EQ(one.remarks.size(), one.rank == 2 ? 1U : 0U);
  }
  golden::expect_text(report.profiles[2].remarks.at(0));
}

TEST(Traces, ARankWhoseDeviceHasNothingToDo) {
  const Report report = judged({{.rank = 0}, {.idle_ms = 30, .rank = 1}}, 2);
  golden::expect_text(report.profiles[1].remarks.at(0));
  const Report on_cpu = judged({{.rank = 0, .on_device = false}, {.idle_ms = 30, .rank = 1, .on_device = false}}, 2);
  golden::expect_text(on_cpu.profiles[1].remarks.at(0));
}

/// A rank that waits less because it hides more is not late.
TEST(Traces, HiddenCommunicationIsNotLateness) {
  const Report report = judged({{.rank = 0}, {.compute_ms = 60, .overlap_ms = 30, .rank = 1}}, 2);
  EXPECT_TRUE(report.profiles[1].remarks.empty());
}

/// A profiler with a schedule writes a file for each cycle of each rank: a rank does not wait for itself, and one
/// cycle's steps say nothing of another's.
TEST(Traces, CyclesOfOneRankAreNotComparedWithEachOther) {
  const int64_t later_ns = 60 * kNsPerSecond;
  for (const ProfileSummary& one :
       judged({{.rank = 0}, {.compute_ms = 85, .rank = 0, .started_ns = later_ns}}, 1).profiles) {
    EXPECT_TRUE(one.remarks.empty()) << one.remarks[0];
  }
  // All ranks compute longer in the later cycle.
  for (const ProfileSummary& one : judged({{.rank = 0},
                                           {.rank = 1},
                                           {.compute_ms = 85, .rank = 0, .started_ns = later_ns},
                                           {.compute_ms = 85, .rank = 1, .started_ns = later_ns}},
                                          2)
                                       .profiles) {
    EXPECT_TRUE(one.remarks.empty()) << one.remarks[0];
  }
  // Rank 1 does, in the later one alone.
  const Report report = judged({{.rank = 0},
                                {.rank = 1},
                                {.rank = 0, .started_ns = later_ns},
                                {.compute_ms = 85, .rank = 1, .started_ns = later_ns}},
                               2);
  EXPECT_EQ(std::ranges::count_if(report.profiles, [](const auto& one) { return !one.remarks.empty(); }), 1);
}

TEST(Traces, LongSteps) {
  const Report report = judged({{.rank = 0, .step_ms = {100, 100, 180, 100, 100}}}, 1);
  ASSERT_EQ(report.profiles[0].remarks.size(), 1U);
  golden::expect_text(report.profiles[0].remarks[0]);
  EXPECT_TRUE(judged({{.rank = 0, .step_ms = {100, 180}}}, 1).profiles[0].remarks.empty());
  EXPECT_EQ(judged({{.rank = 0,
                     .step_ms = std::vector<int64_t>{100, 100, 100, 100, 100, 100, 100, 200, 200, 200, 200, 200, 200}}},
                   1)
                .profiles[0]
                .remarks.size(),
            5U);
}

TEST(Traces, RanksWithoutATraceAreNamed) {
  const Report report = judged({{.rank = 0}, {.rank = 2}});
  golden::expect_text(report.notes.at(0));
}

/// A recording that any user may have made can state any number.
TEST(Traces, AnImpossibleWorldSizeTakesNoTime) {
  const int64_t begun_ns = monotonic_now_ns();
  const Report report = judged({{.rank = 0}, {.rank = 2}}, std::numeric_limits<int32_t>::max());
  EXPECT_LT(monotonic_now_ns() - begun_ns, kNsPerSecond);
  ASSERT_FALSE(report.notes.empty());
  EXPECT_NE(report.notes[0].find("2147483647"), std::string::npos) << report.notes[0];
}

}  // namespace
}  // namespace stalltrace::analysis
