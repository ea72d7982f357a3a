// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/batches/steps.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/thresholds/stalls.h"
#include "lab/simulation/job.h"
#include "lab/simulation/shapes.h"
#include "model/memory_source.h"

namespace stalltrace::analysis {
namespace {

struct Loaded {
  Cluster cluster;
  Timeline timeline;
};

Loaded load(const simulation::JobOptions& options) {
  MemorySource source;
  simulation::Job(options).record_all(source);
  Cluster cluster = *Cluster::load(source);
  Timeline timeline = *Timeline::load(source, cluster);
  return {std::move(cluster), std::move(timeline)};
}

Loaded load(std::string_view shape, int steps) {
  simulation::JobOptions options{.nodes = 2, .ranks_per_node = 4, .steps = steps, .warm_up_ms = 0, .plugin = true};
  EXPECT_TRUE(simulation::apply_shape(shape, options).has_value());
  return load(options);
}

TEST(StepsOfCalls, AreWhatRepeats) {
  const Loaded shards = load("fsdp", 12);
  EXPECT_EQ(calls_in_step(shards.timeline, 0), 3 * 16) << "two AllGathers and a ReduceScatter of each unit";
  const Loaded buckets = load("ddp", 12);
  EXPECT_EQ(calls_in_step(buckets.timeline, 0), 1) << "equal buckets";
  const Loaded experts = load("moe", 12);
  // Two AllToAlls of each layer in both passes, its gradients, and the norm.
  EXPECT_EQ(calls_in_step(experts.timeline, 0), 4 * 8 + 8 + 1);
  const Loaded few = load("moe", 2);
  EXPECT_NE(calls_in_step(few.timeline, 0), 4 * 8 + 8 + 1);
}

/// Under one number a rank called something else: the newest calls do not repeat, those before them do.
TEST(StepsOfCalls, AreKnownWhereTheJobHangsInAMismatch) {
  simulation::JobOptions options{.nodes = 2, .ranks_per_node = 4, .steps = 24, .warm_up_ms = 0, .plugin = true};
  ASSERT_TRUE(simulation::apply_shape("fsdp", options).has_value());
  options.faults = {{.kind = simulation::FaultKind::kMismatchedCollective, .rank = 0, .from = 16}};
  const Loaded loaded = load(options);
  EXPECT_EQ(calls_in_step(loaded.timeline, 0), 3 * 16);
}

TEST(StepsOfCalls, ShowWhenARankHasSettled) {
  const Loaded loaded = load("fsdp", 12);
  const Settling settling(loaded.timeline);
  const std::optional<int64_t> settled_ns = settling.settled_ns(0);
  ASSERT_TRUE(settled_ns.has_value());
  const std::vector<Call>& calls = loaded.timeline.sequences()[loaded.timeline.sequences_of(0).front()].calls;
  EXPECT_EQ(std::ranges::count_if(calls, [&](const Call& call) { return call.arrival_ns < *settled_ns; }),
            kSettlingSteps * 3 * 16);
}

}  // namespace
}  // namespace stalltrace::analysis
