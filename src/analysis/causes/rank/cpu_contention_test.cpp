// SPDX-License-Identifier: Apache-2.0
// Ranks that were ready to run but did not: a throttled cgroup, other programs on their cores.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/slow_job.h"
#include "tests/support/golden_text.h"

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

/// Rank 1 is 220 ms late in three steps from `from` on, ready to run while `who` has its core. `competitors`: what is
/// recorded of the processes with that one's number.
Report report_of_contention(int64_t from, const std::string& who, const std::vector<Competitor>& competitors = {}) {
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
  for (const Competitor& competitor : competitors) {
    source.accept(competitor);
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

/// The core that ended each wait had nothing to run before: nothing kept the rank from it.
TEST(Contention, AWaitThatAnIdleCoreEndsIsNone) {
  for (const Finding& finding : report_of_contention(60, "").findings) {
    EXPECT_NE(finding.cause, Cause::kCpuContention) << finding.summary;
  }
}

TEST(Contention, OfADescendantOfARankIsTheJobsOwnWhateverItsName) {
  Competitor child = stranger(4711);
  EXPECT_EQ(report_of_contention(4, "ffmpeg", {child}).findings.size(), 1U);
  child.rank_pid = 11;
  const Report warming_up = report_of_contention(4, "ffmpeg", {child});
  EXPECT_TRUE(warming_up.findings.empty()) << reported(warming_up);
  const Report later = report_of_contention(60, "ffmpeg", {child});
  ASSERT_EQ(later.findings.size(), 1U) << reported(later);
  golden::expect_text(later.findings[0].remedy);
}

/// A kernel thread has no command line, and a hostile one any length.
TEST(Contention, IsNamedByWhatIsKnownOfTheCompetitor) {
  Competitor known = stranger(4711);
  known.cmdline.clear();
  known.cgroup.clear();
  const auto summary = [&] {
    const Report report = report_of_contention(60, "kcompactd0", {known});
    return report.findings.empty() ? "" : report.findings[0].summary;
  };
  EXPECT_NE(summary().find("'kcompactd0' (pid 4711)"), std::string::npos) << summary();
  known.cmdline = std::string(4096, 'x');
  EXPECT_NE(summary().find("'" + std::string(120, 'x') + "...' (pid 4711)"), std::string::npos) << summary();
  known.exit_ns = kOriginNs - 1;  // another one has the number by now
  EXPECT_NE(summary().find("'kcompactd0' (pid 4711)"), std::string::npos) << summary();
}

/// The stalls are in the steps 60 to 62, each half a second.
TEST(Contention, OfANumberThatWasReusedInThatTimeHasTheNameAlone) {
  const auto summary = [](int64_t second_began_ns, std::optional<int64_t> first_ended_ns) {
    Competitor second = stranger(4711);
    second.start_ns = kOriginNs + second_began_ns;
    second.cmdline = "innocent";
    Competitor first = stranger(4711);
    if (first_ended_ns) {
      first.exit_ns = kOriginNs + *first_ended_ns;
    }
    const Report report = report_of_contention(60, "python3", {first, second});
    return report.findings.empty() ? "" : report.findings[0].summary;
  };
  const int64_t during_ns = 61 * kNsPerSecond / 2;
  for (const std::optional<int64_t> ended_ns : {std::optional<int64_t>(), std::optional(during_ns)}) {
    EXPECT_NE(summary(during_ns, ended_ns).find("'python3' (pid 4711)"), std::string::npos)
        << summary(during_ns, ended_ns);
  }
  const std::string before = summary(10 * kNsPerSecond, std::nullopt);
  EXPECT_NE(before.find("'innocent' (pid 4711)"), std::string::npos) << before;
  const std::string later = summary(50 * kNsPerSecond, std::nullopt);
  EXPECT_NE(later.find("'python3 preprocess.py --shard 3' (pid 4711)"), std::string::npos) << later;
}

/// The waits don't show which of the two had the core.
TEST(Contention, OfANumberThatADescendantHadIsTheJobsOwn) {
  Competitor child = stranger(4711);
  child.rank_pid = 11;
  Competitor successor = stranger(4711);
  successor.start_ns = kOriginNs + kNsPerSecond;
  const Report report = report_of_contention(4, "ffmpeg", {child, successor});
  EXPECT_TRUE(report.findings.empty()) << reported(report);
}

}  // namespace
}  // namespace stalltrace::analysis
