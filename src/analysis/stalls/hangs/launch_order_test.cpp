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

TEST(LaunchOrder, ADifferentOrderIsNoDeadlockBeforeTheJobsLongestPauseIsOver) {
  for (const bool longer : {false, true}) {
    MemorySource source;
    Ending ending;
    const auto pause = [](int64_t step) { return step < kSteps / 2 ? 0 : 3 * kNsPerSecond; };
    ending.call = [&](int, int64_t step, Collective& call) {
      launch(call, step, false);
      call.timestamp_ns += pause(step);
      return true;
    };
    ending.node = [&](int, Node& node) { node.ended_ns = kLastArrivalNs + (longer ? 11 : 8) * kNsPerSecond; };
    fill(source, ending);
    for (int64_t step = 0; step < kSteps; ++step) {
      for (int rank = 0; rank < kRanks; ++rank) {
        Collective call = call_of(rank, step, kSecond);
        call.timestamp_ns += pause(step) + (step == kTurned && rank == 2 ? -2 : 2) * kNsPerMs;
        launch(call, step, true);
        source.accept(call);
      }
    }
    const Report report = small_job::report_of(source);
    EXPECT_EQ(report.findings.empty(), !longer) << reported(report);
  }
}

/// More calls ago than a CPU can be ahead of its device, an order is no cause of a hang.
TEST(LaunchOrder, AnOrderOfLongAgoIsNoDeadlock) {
  constexpr int64_t kManySteps = 700;  // of two calls
  MemorySource source;
  Ending ending;
  ending.node = [](int, Node& node) { node.ended_ns = begin_of(kManySteps) + 10 * kNsPerSecond; };
  describe(source, ending);
  for (int64_t step = 0; step < kManySteps; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      for (const CommHash hash : {kHash, kSecond}) {
        Collective call = call_of(rank, step, hash);
        call.timestamp_ns += hash == kHash ? 0 : (step == kTurned && rank == 2 ? -2 : 2) * kNsPerMs;
        launch(call, step, false);
        if (step == kManySteps - 1 && hash == kSecond) {
          call.launch_ns.reset();
        }
        source.accept(call);
      }
    }
  }
  const Report report = small_job::report_of(source);
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  EXPECT_EQ(report.findings[0].cause, Cause::kUnknown);
}

/// A process with two devices has two communicators in each group; which of its threads was first shows nothing.
TEST(LaunchOrder, TwoDevicesOfAProcessAreNotCompared) {
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
      for (const int device : {0, 1}) {
        Collective call = call_of(rank, step, device == 0 ? kSecond : kHash);
        call.event_id += 500'000 * static_cast<uint64_t>(1 + device);
        call.comm_ptr += device == 0 ? 0 : 1000;
        call.rank = device == 0 ? rank : rank + kRanks;
        call.timestamp_ns += (step == kTurned && rank == 2 ? -2 : 2) * kNsPerMs;
        launch(call, step, device == 0);
        source.accept(call);
      }
    }
  }
  for (const Finding& finding : small_job::report_of(source).findings) {
    EXPECT_NE(finding.cause, Cause::kMissingCollective) << finding.summary;
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
