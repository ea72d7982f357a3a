// SPDX-License-Identifier: Apache-2.0
// A fault that lasts from the first call to the last, beside another run of the job, which was right.
#include "analysis/stalls/reference.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "analysis/explain.h"
#include "analysis/profiles/job_view.h"
#include "analysis/testing/small_job.h"
#include "lab/simulation/job.h"
#include "model/memory_source.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;
using simulation::FaultKind;

constexpr int64_t kRightNs = 5 * kNsPerMs;
constexpr int64_t kLongNs = 20 * kNsPerMs;
constexpr CommHash kOtherHash = 4711;

Reference reference_of(MemorySource& source) {
  const auto job = JobView::load(source);
  EXPECT_TRUE(job.has_value());
  return job ? Reference::learn((*job)->timeline(), (*job)->cluster()) : Reference();
}

Report report_beside(MemorySource& source, const Reference* reference) {
  const Result<ExplainResult> result = explain(source, {.reference = reference});
  EXPECT_TRUE(result.has_value());
  return result ? result->report : Report{};
}

/// All calls of the job, on a communicator of this name, take `taken_ns`, and `change` is made to each.
MemorySource job_of(int64_t taken_ns, CommHash hash = kHash, const std::function<void(Collective&)>& change = {}) {
  MemorySource source;
  Ending ending;
  ending.call = [&](int rank, int64_t step, Collective& call) {
    call = call_of(rank, step, hash);
    call.duration_ns = taken_ns;
    if (change) {
      change(call);
    }
    return call.rank < call.nranks;
  };
  fill(source, ending);
  return source;
}

/// What a job whose calls all take long is found to be beside this one.
Report report_beside(MemorySource right) {
  const Reference reference = reference_of(right);
  MemorySource slow = job_of(kLongNs);
  return report_beside(slow, &reference);
}

TEST(Reference, ACommunicatorThatIsSlowFromItsFirstCallOnIsFound) {
  MemorySource slow = job_of(kLongNs);
  EXPECT_TRUE(report_beside(slow, nullptr).findings.empty());
  const Report report = report_beside(job_of(kRightNs, kOtherHash));
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  const Finding& finding = report.findings[0];
  EXPECT_EQ(finding.cause, Cause::kUnknown);
  EXPECT_EQ(finding.collectives_affected, kSteps - kWarmUpInstances);
  const double cost_ms = static_cast<double>((kSteps - kWarmUpInstances) * (kLongNs - kRightNs)) / 1e6;
  EXPECT_NEAR(finding.stall_ms, cost_ms, 0.05 * cost_ms);
  ASSERT_TRUE(finding.like.has_value());
  EXPECT_NEAR(static_cast<double>(finding.like->usual_ns), static_cast<double>(kRightNs), 1e5);
  EXPECT_NEAR(static_cast<double>(finding.like->took_ns), static_cast<double>(kLongNs), 1e5);
  ASSERT_TRUE(report.like.has_value());
  EXPECT_EQ(report.like->comparable, kSteps - kWarmUpInstances);
  EXPECT_EQ(report.like->not_comparable, 0);
  EXPECT_EQ(report.like->ranks, kRanks);
}

TEST(Reference, AHealthyRunBesideAnotherGivesNothing) {
  MemorySource right = job_of(kRightNs, kOtherHash);
  const Reference reference = reference_of(right);
  MemorySource healthy = job_of(kRightNs + kNsPerMs);
  const Report report = report_beside(healthy, &reference);
  EXPECT_TRUE(report.findings.empty()) << reported(report);
  EXPECT_EQ(report.like->comparable, kSteps - kWarmUpInstances);
}

/// What differs between the runs besides the time.
TEST(Reference, OnlyComparableInstancesAreCompared) {
  const auto expect_none = [](const char* what, const std::function<void(Collective&)>& change) {
    const Report report = report_beside(job_of(kRightNs, kOtherHash, change));
    SCOPED_TRACE(std::string(what) + "\n" + reported(report));
    EXPECT_TRUE(report.findings.empty());
    ASSERT_TRUE(report.like.has_value());
    EXPECT_EQ(report.like->comparable, 0);
    EXPECT_EQ(report.like->not_comparable, kSteps - kWarmUpInstances);
  };
  expect_none("payload", [](Collective& call) { call.bytes *= 2; });
  expect_none("operation", [](Collective& call) { call.op = Operation::kBroadcast; });
  expect_none("ranks", [](Collective& call) { call.nranks = kRanks - 1; });
  expect_none("how ends are known", [](Collective& call) { call.completion = Completion::kProfiler; });
}

/// It may have gone over that path here, too.
TEST(Reference, TheSlowestCommunicatorOfTheRightRunIsUsual) {
  MemorySource right = job_of(kRightNs, kOtherHash);
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      Collective call = call_of(rank, step);  // its id is another one
      call.timestamp_ns += kStepNs / 2;
      call.duration_ns = kLongNs;
      right.accept(call);
    }
  }
  EXPECT_TRUE(report_beside(std::move(right)).findings.empty());
}

/// Single calls are long in healthy runs: a class as a whole has to be slower.
TEST(Reference, WhatMostInstancesTakeDecides) {
  MemorySource right = job_of(kRightNs, kOtherHash);
  const Reference reference = reference_of(right);
  const auto stalls_where = [&](int64_t of_four) {
    MemorySource own = job_of(kRightNs, kHash, [=](Collective& call) {
      call.duration_ns = kRightNs + (call.seq.value_or(0) % 4 < of_four ? 4 * kNsPerMs : 0);
    });
    const Result<ExplainResult> result = explain(own, {.reference = &reference});
    return result ? result->decisions.size() : 0;
  };
  EXPECT_EQ(stalls_where(2), 0U);
  EXPECT_GT(stalls_where(4), 0U);
}

Reference reference_of(const simulation::JobOptions& options) {
  MemorySource source;
  simulation::Job(options).record_all(source);
  return reference_of(source);
}

Report report_beside(const simulation::JobOptions& options, const Reference* reference) {
  MemorySource source;
  simulation::Job(options).record_all(source);
  return report_beside(source, reference);
}

/// With the plugin each transfer has its own times, without it only steps have.
TEST(Reference, ASlowLinkOfTheWholeRunIsFound) {
  for (const bool plugin : {true, false}) {
    SCOPED_TRACE(plugin);
    simulation::JobOptions options{.nodes = 4, .ranks_per_node = 2, .steps = 40, .plugin = plugin};
    const Reference reference = reference_of(options);
    options.seed = 7;
    const Report healthy = report_beside(options, &reference);
    EXPECT_TRUE(healthy.findings.empty()) << reported(healthy);
    options.faults = {{.kind = FaultKind::kSlowLink, .rank = 5, .factor = 4}};
    EXPECT_TRUE(report_beside(options, nullptr).findings.empty());
    const Report report = report_beside(options, &reference);
    SCOPED_TRACE(reported(report));
    ASSERT_FALSE(report.findings.empty());
    for (const Finding& finding : report.findings) {
      EXPECT_FALSE(finding.culprit.has_value()) << finding.summary;
      EXPECT_TRUE(!finding.link || finding.link->src_rank == 5) << finding.summary;
    }
    if (plugin) {  // what is seen of steps includes times in which the link is idle
      expect_link(report.findings[0], Cause::kSlowLink, 5, 6);
    }
    ASSERT_TRUE(report.findings[0].like.has_value());
    EXPECT_GT(report.findings[0].like->took_ns, report.findings[0].like->usual_ns * 3 / 2);
  }
}

/// Without the plugin it makes all steps equally long, and is as late as it usually is.
TEST(Reference, ARankThatIsLateInEveryStepIsFoundWithoutThePlugin) {
  simulation::JobOptions options{.nodes = 2, .ranks_per_node = 4, .steps = 40};
  const Reference reference = reference_of(options);
  options.seed = 7;
  options.faults = {{.kind = FaultKind::kLateRank, .rank = 5, .ms = 80}};
  EXPECT_TRUE(report_beside(options, nullptr).findings.empty());
  const Report report = report_beside(options, &reference);
  SCOPED_TRACE(reported(report));
  ASSERT_FALSE(report.findings.empty());
  expect_culprit(report.findings[0], Cause::kLateRank, 5);
  ASSERT_TRUE(report.findings[0].like.has_value());
}

}  // namespace
}  // namespace stalltrace::analysis
