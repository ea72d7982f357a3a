// SPDX-License-Identifier: Apache-2.0
// The profiles on small jobs; serve/mcp/tools/tools_test.cpp has more, as tools show them.
#include <gtest/gtest.h>

#include "analysis/profiles/call_ids.h"
#include "analysis/profiles/comparison.h"
#include "analysis/profiles/instances.h"
#include "analysis/profiles/median_sample.h"
#include "analysis/profiles/ranks.h"
#include "analysis/testing/small_job.h"
#include "analysis/thresholds/stalls.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

std::unique_ptr<JobView> view_of(MemorySource& source) {
  Result<std::unique_ptr<JobView>> view = JobView::load(source);
  EXPECT_TRUE(view.has_value());
  return view ? std::move(*view) : nullptr;
}

TEST(Median, OfManyValuesTakesEvenlySpreadOnes) {
  MedianSample sample;
  EXPECT_TRUE(sample.empty());
  EXPECT_EQ(sample.median(), 0);
  for (int64_t i = 0; i < 100'000; ++i) {
    sample.add(i);
  }
  EXPECT_NEAR(static_cast<double>(sample.median()), 50'000, 1'000);
}

TEST(Profiles, TheIdOfACallIsFoundByItsSequence) {
  MemorySource source;
  fill(source, {});
  const auto job = view_of(source);
  const SlowestInstances slowest = slowest_instances(*job, {}, InstanceOrder::kLate, 1);
  ASSERT_EQ(slowest.instances.size(), 1U);
  EXPECT_EQ(slowest.matched, kSteps);
  const auto id = find_call_id(job->source(), job->cluster(), job->timeline(), slowest.instances[0].last_sequence, 7);
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(*id, call_of(3, 7).event_id);
  EXPECT_EQ(*find_call_id(job->source(), job->cluster(), job->timeline(), 0, 9999), std::nullopt);
}

/// NCCL's calls queue behind each other: an instance begins at the end of the one before, a row at its arrival.
TEST(Profiles, TheIdOfAQueuedCallIsFound) {
  Ending ending;
  ending.call = [](int /*rank*/, int64_t step, Collective& call) {
    call.completion = Completion::kProfiler;
    if (step % 2 == 1) {  // launched right after the one before, ends long after it
      call.timestamp_ns = begin_of(step - 1) + kNsPerMs;
      call.duration_ns = 10 * kNsPerMs;
    }
    return true;
  };
  MemorySource source;
  fill(source, ending);
  const auto job = view_of(source);
  const auto id = find_call_id(job->source(), job->cluster(), job->timeline(), 0, 51);
  ASSERT_TRUE(id.has_value() && id->has_value());
  EXPECT_EQ(number_of(**id), 52U);
}

TEST(Profiles, AnAbsentRankIsTheOneThatTheOthersWaitFor) {
  MemorySource source;
  fill(source, hang({1}));
  const auto job = view_of(source);
  for (const RankProfile& profile : rank_profiles(*job, job->range())) {
    const bool absent = job->cluster().member(profile.member).rank == 1;
    EXPECT_EQ(profile.absent, absent ? 1 : 0);
    EXPECT_EQ(profile.open, absent ? 0 : 1);
    EXPECT_EQ(profile.waited_for_ns > kNsPerSecond, absent);
  }
  const Result<WaitsAtTime> waits = waits_at(*job, job->range().to_ns, kNsPerSecond);
  ASSERT_TRUE(waits.has_value());
  ASSERT_EQ(waits->held_up_by.size(), 1U);
  EXPECT_EQ(job->cluster().member(waits->held_up_by[0]).rank, 1);
  EXPECT_FALSE(waits->transfer.has_value());
}

TEST(Profiles, AComparisonOfAJobWithItselfFindsNothing) {
  MemorySource source;
  fill(source, {});
  const auto job = view_of(source);
  const std::vector<ComparedClass> classes = compare(*job, job->range(), *job, job->range(), true);
  ASSERT_EQ(classes.size(), 1U);
  EXPECT_EQ(classes[0].hash, kHash);
  EXPECT_EQ(classes[0].a.total_ns, classes[0].b.total_ns);
  EXPECT_EQ(classes[0].a.instances, kSteps - kWarmUpInstances);
}

}  // namespace
}  // namespace stalltrace::analysis
