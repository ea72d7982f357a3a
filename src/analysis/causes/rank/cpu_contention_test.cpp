// SPDX-License-Identifier: Apache-2.0
// Ranks that were ready to run but did not: a throttled cgroup, other programs on their cores.
#include <gtest/gtest.h>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/slow_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

TEST(Throttled, TheCgroupThatMayNotRunIsNamed) {
  MemorySource source = starved_job(true);
  const Finding finding = only(source);
  expect_culprit(finding, Cause::kCpuContention, 1);
  EXPECT_EQ(count_of_kind(finding, "host_sample"), 1);
  EXPECT_EQ(count_of_kind(finding, "sched_switch"), 0);
  expect_golden_text("cpu_contention by throttling", finding);
}

TEST(Throttled, WithoutThrottlingThereIsNone) {
  MemorySource source = starved_job(false);
  for (const Finding& finding : report_of(source).findings) {
    EXPECT_EQ(count_of_kind(finding, "host_sample"), 0) << finding.summary;
  }
}

/// Rank 1 is 220 ms late in three steps from `from` on, ready to run while `who` has its core.
Report report_of_contention(int64_t from, const std::string& who) {
  constexpr int64_t kApartNs = 500 * kNsPerMs;
  constexpr int64_t kLateNs = 220 * kNsPerMs;
  const auto begin = [](int64_t step) { return kOriginNs + step * kApartNs; };
  const auto is_late = [&](int64_t step) { return step >= from && step < from + 3; };
  MemorySource source;
  Ending ending;
  ending.call = [&](int rank, int64_t step, Collective& call) {
    const int64_t late_ns = is_late(step) ? kLateNs : 0;
    call.timestamp_ns = begin(step) + (rank == 1 ? late_ns : 0);
    call.duration_ns = 5 * kNsPerMs + (rank == 1 ? 0 : late_ns);
    return true;
  };
  fill(source, ending);
  for (int64_t step = from; step < from + 3; ++step) {
    source.accept(starved(begin(step), kLateNs, who == "train" ? 12 : 4711, who));
  }
  return report_of(source);
}

TEST(Contention, OfAJobsOwnRanksWhileTheyWarmUpIsNotReported) {
  const Report warming_up = report_of_contention(4, "train");
  EXPECT_TRUE(warming_up.findings.empty()) << reported(warming_up);
  for (const Report& report : {report_of_contention(60, "train"), report_of_contention(4, "stranger")}) {
    ASSERT_EQ(report.findings.size(), 1U) << reported(report);
    expect_culprit(report.findings[0], Cause::kCpuContention, 1);
  }
}

}  // namespace
}  // namespace stalltrace::analysis
