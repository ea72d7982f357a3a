// SPDX-License-Identifier: Apache-2.0
// Jobs of whose calls no end is seen: a call that does not return, and calls of two communicators in different orders.
#include "analysis/stalls/hangs/launch_order.h"

#include <gtest/gtest.h>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/small_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

constexpr CommHash kSecond = 88;
constexpr int64_t kLastStep = kSteps - 1;
constexpr int64_t kTurned = 30;  // the step in which the order differs

/// No end of a call is seen. Calls of the last step do not return, if `held`.
void launch(Collective& call, int64_t step, bool held) {
  leave_open(call);
  call.launch_ns = 30 * kNsPerUs;
  if (held && step == kLastStep) {
    call.launch_ns.reset();
  }
}

/// A job of two communicators of all ranks, in which `turned` call on them the other way round once.
Report two_communicators(const std::set<int>& turned, bool held = true) {
  MemorySource source;
  Ending ending;
  ending.call = [&](int, int64_t step, Collective& call) {
    launch(call, step, false);
    return true;
  };
  ending.node = [](int, Node& node) { node.ended_ns = kLastArrivalNs + 5 * kNsPerSecond; };
  fill(source, ending);
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      Collective call = call_of(rank, step, kSecond);
      call.timestamp_ns += (step == kTurned && turned.contains(rank) ? -2 : 2) * kNsPerMs;
      launch(call, step, held);
      source.accept(call);
    }
  }
  return small_job::report_of(source);
}

TEST(LaunchOrder, ARankThatDiffersIsNamedWithBothCalls) {
  const Report report = two_communicators({2});
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  expect_culprit(report.findings[0], Cause::kMissingCollective, 2);
  EXPECT_EQ(report.findings[0].severity, Severity::kCritical);
  expect_golden_text("missing_collective by order of launches", report.findings[0]);
}

TEST(LaunchOrder, HalfOfTheRanksAgainstTheOtherHalfNamesNoRank) {
  const Report report = two_communicators({1, 2});
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  EXPECT_EQ(report.findings[0].cause, Cause::kMissingCollective);
  EXPECT_FALSE(report.findings[0].culprit);
}

TEST(LaunchOrder, OneOrderIsAHangOfUnknownCause) {
  const Report report = two_communicators({});
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  EXPECT_EQ(report.findings[0].cause, Cause::kUnknown);
  EXPECT_EQ(report.findings[0].severity, Severity::kCritical);
}

TEST(LaunchOrder, CallsThatReturnAreNoHang) {
  for (const std::set<int>& turned : {std::set<int>{}, std::set<int>{2}}) {
    const Report report = two_communicators(turned, false);
    EXPECT_TRUE(report.findings.empty()) << reported(report);
  }
}

/// A queue of launches that is full makes a CPU wait for its device, as long as the job has been seen to pause.
TEST(LaunchOrder, ACallThatWaitsNoLongerThanTheJobPausedIsNoHang) {
  for (const bool longer : {false, true}) {
    Ending ending;
    ending.call = [](int, int64_t step, Collective& call) {
      launch(call, step, true);
      call.timestamp_ns += step < kSteps / 2 ? 0 : 3 * kNsPerSecond;
      return true;
    };
    ending.node = [&](int, Node& node) {
      node.ended_ns = kLastArrivalNs + (longer ? 11 : 8) * kNsPerSecond;  // 3 s of them before the last call
    };
    const Report report = small_job::report_of(ending);
    EXPECT_EQ(report.findings.empty(), !longer) << reported(report);
  }
}

}  // namespace
}  // namespace stalltrace::analysis
