// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/search/step_lateness.h"

#include <gtest/gtest.h>

#include <vector>

#include "analysis/testing/small_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

constexpr int kStepCalls = 4;

/// Steps of 4 calls, 5 ms apart, that one synchronisation ends 50 ms after the first. Those of all ranks but the last
/// return `returns_late_ns` later at the end of step 4; all begin the next step at the same time.
struct StepsOfABatch {
  explicit StepsOfABatch(int64_t returns_late_ns) : cluster(load(returns_late_ns)) {
    timeline = *Timeline::load(source, cluster);
  }

  Cluster load(int64_t returns_late_ns) {
    describe(source, {});
    for (int step = 0; step < 10; ++step) {
      for (int rank = 0; rank < kRanks; ++rank) {
        for (int call = 0; call < kStepCalls; ++call) {
          Collective row = call_of(rank, step * kStepCalls + call);
          row.timestamp_ns = kOriginNs + step * 200 * kNsPerMs + call * 5 * kNsPerMs;
          row.duration_ns = (50 - 5 * call) * kNsPerMs + (rank + 1 < kRanks && step == 4 ? returns_late_ns : 0);
          source.accept(row);
        }
      }
    }
    return *Cluster::load(source);
  }

  /// How late the last rank of step 5 was.
  [[nodiscard]] std::optional<int64_t> late_ns(const std::vector<Clock::Known>& clocks) const {
    Instance instance;
    EXPECT_TRUE(read_instance(timeline, 0, 6 * kStepCalls - 1, instance));
    EXPECT_EQ(instance.batch, BatchPart::kLast);
    const auto found = step_lateness(timeline, clocks, instance);
    return found ? std::optional(found->instance.late_ns()) : std::nullopt;
  }

  MemorySource source;
  Cluster cluster;
  Timeline timeline;
};

const std::vector<Clock::Known> kOneHost(kRanks, {0, 0});

TEST(StepLateness, CountsFromTheSynchronisationBefore) {
  EXPECT_EQ(StepsOfABatch(0).late_ns(kOneHost), 0);
  EXPECT_EQ(StepsOfABatch(8 * kNsPerMs).late_ns(kOneHost), 8 * kNsPerMs);
}

/// They were busy when all was done: the last rank is not late because of it.
TEST(StepLateness, IsNotKnownWhereASynchronisationReturnedLater) {
  const StepsOfABatch steps(100 * kNsPerMs);
  EXPECT_EQ(steps.late_ns(kOneHost), std::nullopt);
  const auto hosts = [](std::optional<int64_t> error_ns) {
    std::vector<Clock::Known> clocks;
    for (size_t rank = 0; rank < kRanks; ++rank) {
      clocks.push_back({rank, error_ns});
    }
    return clocks;
  };
  EXPECT_EQ(steps.late_ns(hosts(20 * kNsPerMs)), std::nullopt);
  // Clocks may be off by as much: it returned at the same moment, for all that is known.
  EXPECT_EQ(steps.late_ns(hosts(60 * kNsPerMs)), 100 * kNsPerMs);
  EXPECT_EQ(steps.late_ns(hosts(std::nullopt)), 100 * kNsPerMs);
}

}  // namespace
}  // namespace stalltrace::analysis
