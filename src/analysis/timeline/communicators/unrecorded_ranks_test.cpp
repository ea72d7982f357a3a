// SPDX-License-Identifier: Apache-2.0
// What losses of a recording mean: which ranks count as recorded, and how many events are lost.
#include "analysis/timeline/communicators/unrecorded_ranks.h"

#include <gtest/gtest.h>

#include "analysis/testing/small_job.h"
#include "model/events/loss_sources.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

using small_job::node_of_rank;

/// Rank 3 was started with the others, but has no calls.
Report without_calls_of_rank_3(const Loss& loss) {
  using namespace small_job;
  Ending ending;
  ending.call = [](int rank, int64_t, Collective&) { return rank != 3; };
  ending.process = [](int rank, Process& process) {
    process.rank = rank;
    process.rank_source = RankSource::kEnvironment;
    process.world_size = kRanks;
    process.job_id = "job";
    process.start_ns = kOriginNs - 60 * kNsPerSecond;
  };
  MemorySource source;
  fill(source, ending);
  source.accept(loss);
  return report_of(source);
}

TEST(UnrecordedRanks, ARankWithoutCallsIsRecorded) {
  EXPECT_EQ(without_calls_of_rank_3({node_of_rank(3), "ring:network", 5}).unrecorded_ranks, "");
  EXPECT_EQ(without_calls_of_rank_3({node_of_rank(2), users_loss(kLostProcessShare, 1000), 1}).unrecorded_ranks, "")
      << "another node's loss";
}

/// It may have been followed late, after its calls.
TEST(UnrecordedRanks, ARankWhoseCallsMayBeMissingIsNot) {
  const Report report = without_calls_of_rank_3({node_of_rank(3), users_loss(kLostProcessShare, 1000), 1});
  golden::expect_text(report.unrecorded_ranks);
}

TEST(LostEvents, WhatLeavesNoEventOutIsNotCounted) {
  MemorySource source;
  small_job::fill(source, {});
  for (const char* lost : {"share:competitor", "share:mapping", "share:stack"}) {
    source.accept(Loss{node_of_rank(0), users_loss(lost, 1000), 2});
  }
  const Report report = small_job::report_of(source);
  EXPECT_EQ(report.lost_events, 2U);
  EXPECT_EQ(report.losses.size(), 3U) << "they are listed all the same";
}

}  // namespace
}  // namespace stalltrace::analysis
