// SPDX-License-Identifier: Apache-2.0
// The calls that a finding names belong to its stalls.
#include "analysis/findings/expensive_calls.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/testing/slow_job.h"
#include "analysis/thresholds/gates.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

/// The events of the last evidence of kind "collective" of the only finding.
std::vector<EventId> calls_of(const Finding& finding) {
  const auto line = std::find_if(finding.evidence.rbegin(), finding.evidence.rend(),
                                 [](const Evidence& evidence) { return !evidence.events.empty(); });
  EXPECT_NE(line, finding.evidence.rend()) << finding.summary;
  EXPECT_EQ(line->kind, "collective");
  return line->events;
}

TEST(ExpensiveCalls, LeadToStallsOfTheirFinding) {
  MemorySource source = lossy_job();
  const std::vector<EventId> calls = calls_of(only(source));
  EXPECT_EQ(calls.size(), kExpensiveCalls);
  for (const EventId id : calls) {
    const Result<ExplainResult> result = explain(source, {.instance = id});
    ASSERT_TRUE(result && result->inspection);
    EXPECT_TRUE(
        std::ranges::any_of(result->inspection->parts, [](const InspectedPart& part) { return part.finding == 1; }));
  }
}

TEST(ExpensiveCalls, AreTheCulpritsWhereItTookPart) {
  MemorySource source = starved_job(true);
  for (const EventId id : calls_of(only(source))) {
    EXPECT_EQ(node_of(id), node_of_rank(1));
  }
}

/// Each step is a group of two calls with one arrival; the slow one comes first.
TEST(ExpensiveCalls, AreTheSlowOnesOfTheirGroups) {
  constexpr uint64_t kMates = 500'000;  // first number of the other calls
  MemorySource source = lossy_job();
  const Ending ending = slow();
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      Collective call = call_of(rank, step);
      ending.call(rank, step, call);
      call.seq = 2 * step;
      source.accept(call);
      call.event_id += kMates;
      call.seq = 2 * step + 1;
      call.bytes = 4096;
      call.duration_ns = kNsPerMs;
      source.accept(call);
    }
  }
  for (const EventId id : calls_of(only(source))) {
    EXPECT_LT(number_of(id), kMates);
  }
}

TEST(ExpensiveCalls, OfAHangAreThoseOfARankThatWaits) {
  MemorySource source;
  fill(source, hang({2}));
  const std::vector<EventId> calls = calls_of(only(source));
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_NE(node_of(calls[0]), node_of_rank(2));
  EXPECT_EQ(number_of(calls[0]), static_cast<uint64_t>(kSteps));
}

TEST(ExpensiveCalls, TheMostExpensiveComesFirst) {
  MemorySource source;
  Ending ending = slow();
  const auto call = ending.call;
  ending.call = [call](int rank, int64_t step, Collective& row) {
    call(rank, step, row);
    *row.duration_ns += step == 70 ? 5 * kNsPerMs : 0;
    return true;
  };
  fill(source, ending);
  const Report report = report_of(source);
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(number_of(calls_of(report.findings[0]).front()), 71U);
}

}  // namespace
}  // namespace stalltrace::analysis
