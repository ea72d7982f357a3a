// SPDX-License-Identifier: Apache-2.0
// The activity of a late rank, and lateness that is only a consequence of another rank's.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <vector>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/slow_job.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

struct Spent {
  int32_t tid;
  WaitKind kind;
  int64_t ns;
};

/// Rank 1 is `late_ns` late from kSlowFrom on, in calls of its thread `tid`; its threads spend that time as in `spent`.
Report report_of_late(int64_t late_ns, int32_t tid, const std::vector<Spent>& spent) {
  MemorySource source;
  Ending ending;
  ending.call = [&](int rank, int64_t step, Collective& call) {
    const int64_t late = step >= kSlowFrom ? late_ns : 0;
    call.timestamp_ns = kOriginNs + step * 4 * kStepNs + (rank == 1 ? late : rank * 100 * kNsPerUs);
    call.duration_ns = kOriginNs + step * 4 * kStepNs + late + 5 * kNsPerMs - call.timestamp_ns;
    call.tid = rank == 1 ? tid : call.tid;
    return true;
  };
  fill(source, ending);
  for (int64_t step = kSlowFrom; step < kSteps; ++step) {
    for (const Spent& part : spent) {
      WaitSpan span{.node_id = node_of_rank(1), .timestamp_ns = kOriginNs + step * 4 * kStepNs, .window_ns = late_ns};
      span.waited_ns = part.ns;
      span.kind = part.kind;
      span.pid = 11;
      span.tid = part.tid;
      source.accept(span);
    }
  }
  return report_of(source);
}

TEST(LateRank, WhoHandsWorkToAPoolsThreadIsLookedAt) {
  constexpr int64_t kLateNs = 60 * kNsPerMs;
  const Report disk =
      report_of_late(kLateNs, 500, {{500, WaitKind::kBlocked, kLateNs}, {11, WaitKind::kDisk, kLateNs - 5 * kNsPerMs}});
  ASSERT_EQ(disk.findings.size(), 1U) << reported(disk);
  expect_culprit(disk.findings[0], Cause::kDiskIo, 1);
  const Report own =
      report_of_late(kLateNs, 500, {{500, WaitKind::kOnCpu, kLateNs}, {11, WaitKind::kDisk, kLateNs - 5 * kNsPerMs}});
  ASSERT_EQ(own.findings.size(), 1U) << reported(own);
  EXPECT_EQ(own.findings[0].cause, Cause::kLateRank) << "its own work, whatever the first thread waits for";
}

TEST(LateRank, MoreWorkIsLateThoughRanksShareTheirCores) {
  const auto shared = [](int64_t late_ns) {
    const int64_t half = late_ns / 2 + kNsPerMs;
    return report_of_late(late_ns, 11, {{11, WaitKind::kOnCpu, half}, {11, WaitKind::kRunnable, half}});
  };
  const Report late = shared(80 * kNsPerMs);
  ASSERT_EQ(late.findings.size(), 1U) << reported(late);
  expect_culprit(late.findings[0], Cause::kLateRank, 1);
  EXPECT_TRUE(shared(30 * kNsPerMs).findings.empty()) << "a hiccup of the scheduler looks like that";
}

/// In each step ranks 0 and 1 also meet on their own communicator; rank 0 does so before the step. From kSlowFrom on
/// rank 1 has launched the step and computes for 30 ms before they meet, so that rank 0 is late for the step.
TEST(LateRank, WhoWaitsInAnotherCommunicatorIsNotTheStartOfTheChain) {
  constexpr int64_t kLateNs = 30 * kNsPerMs;
  constexpr CommHash kPair = 99;
  MemorySource source;
  fill(source, late(0, kLateNs));
  for (int64_t step = 0; step < kSteps; ++step) {
    for (const int rank : {0, 1}) {
      const int64_t late_ns = step >= kSlowFrom ? kLateNs : 0;
      Collective call = call_of(rank, step, kPair);
      call.nranks = 2;
      call.completion = Completion::kNetwork;  // no call of the rank is known to have waited for its end
      call.timestamp_ns = begin_of(step) - 2 * kNsPerMs + (rank == 1 ? late_ns : 0);
      call.duration_ns = kNsPerMs + (rank == 1 ? 0 : late_ns);
      source.accept(call);
      WaitSpan wait{.node_id = node_of_rank(rank), .timestamp_ns = begin_of(step), .window_ns = kLateNs};
      wait.waited_ns = kLateNs;
      wait.kind = rank == 1 ? WaitKind::kOnCpu : WaitKind::kBlocked;
      wait.pid = wait.tid = 10 + rank;
      if (step >= kSlowFrom) {
        source.accept(wait);
      }
    }
  }
  const Finding finding = only(source);
  expect_culprit(finding, Cause::kLateRank, 1);
  expect_golden_text("late_rank at the start of a chain", finding);
}

struct Lateness {
  int rank = 0;
  int64_t ns = 0;
};

/// In each step one rank, chosen by `lateness`, computes for longer than the others, which wait for it. It has a CPU
/// for `on_cpu` percent of that time. `twice`: they wait in a second communicator in the same time.
Report report_of_turns(const std::function<Lateness(int64_t step)>& lateness, int64_t on_cpu = 100,
                       bool twice = false) {
  constexpr CommHash kSecond = 99;
  MemorySource source;
  std::vector<int64_t> begins{kOriginNs};
  for (int64_t step = 0; step < kSteps; ++step) {
    begins.push_back(begins.back() + 4 * kStepNs + lateness(step).ns);
  }
  Ending ending;
  ending.call = [&](int rank, int64_t step, Collective& call) {
    const Lateness late = lateness(step);
    const auto at = static_cast<size_t>(step);
    call.timestamp_ns = begins[at] + (rank == late.rank ? late.ns : 0);
    call.duration_ns = begins[at] + late.ns + 5 * kNsPerMs - call.timestamp_ns;
    return true;
  };
  fill(source, ending);
  for (int64_t step = 0; twice && step < kSteps; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      Collective call = call_of(rank, step, kSecond);
      ending.call(rank, step, call);
      source.accept(call);
    }
  }
  for (int64_t step = 0; step < kSteps; ++step) {
    const Lateness late = lateness(step);
    if (late.ns > 0) {
      WaitSpan span{.node_id = node_of_rank(late.rank), .timestamp_ns = begins[static_cast<size_t>(step)]};
      span.window_ns = late.ns;
      span.waited_ns = late.ns * on_cpu / 100;
      span.kind = WaitKind::kOnCpu;
      span.pid = span.tid = 10 + late.rank;
      source.accept(span);
      span.waited_ns = late.ns - span.waited_ns;
      span.kind = WaitKind::kRunnable;
      source.accept(span);
    }
  }
  return report_of(source);
}

/// Rank 0 evaluates for 3 s now and then, and otherwise scatters like the others.
TEST(LateRank, RareWorkOfRank0IsANoteBesideItsScatter) {
  const auto evaluation = [](int rank) {
    return [rank](int64_t step) {
      return Lateness{rank, step >= 60 && step % 20 == 0 ? 3 * kNsPerSecond : step % 3 == 0 ? 15 * kNsPerMs : 0};
    };
  };
  const Report rank0 = report_of_turns(evaluation(0));
  EXPECT_TRUE(rank0.findings.empty()) << reported(rank0);
  ASSERT_EQ(rank0.notes.size(), 1U);
  golden::expect_text(rank0.notes[0]);
  const Report rank1 = report_of_turns(evaluation(1));
  ASSERT_EQ(rank1.findings.size(), 1U) << reported(rank1);
  expect_culprit(rank1.findings[0], Cause::kLateRank, 1);
  const Report overlapping = report_of_turns(evaluation(0), 100, true);
  EXPECT_TRUE(overlapping.findings.empty()) << reported(overlapping);
}

/// An evaluation of rank 2 on a machine with too few cores: most of the time it waits for a CPU that the job has.
TEST(LateRank, LongWorkIsLateThoughItSeldomHasACpu) {
  const auto evaluation = [](int64_t step) { return Lateness{2, step == 70 || step == 80 ? kNsPerSecond : 0}; };
  const Report late = report_of_turns(evaluation, 40);
  ASSERT_EQ(late.findings.size(), 1U) << reported(late);
  expect_culprit(late.findings[0], Cause::kLateRank, 2);
  const Report starved = report_of_turns(evaluation, 10);
  ASSERT_EQ(starved.findings.size(), 1U) << reported(starved);
  EXPECT_NE(starved.findings[0].cause, Cause::kLateRank) << "work of 100 ms";
}

/// The collectives of one step are late for one reason: 10 batches, of which one rank had the largest 5 times, say less
/// than 40 collectives that are late one by one.
TEST(LateRank, RunsOfLatenessAreOneByChance) {
  constexpr std::array kRanks{1, 0, 1, 2, 1, 3, 1, 0, 1, 2};
  const auto turns = [&](size_t run) {
    return [&, run](int64_t step) {
      const auto at = static_cast<size_t>(step - 60);
      return step < 60 ? Lateness{} : Lateness{kRanks.at(at / run % kRanks.size()), 100 * kNsPerMs};
    };
  };
  const Report runs = report_of_turns(turns(4));
  EXPECT_TRUE(runs.findings.empty()) << reported(runs);
  const Report singles = report_of_turns(turns(1));
  ASSERT_EQ(singles.findings.size(), 1U) << reported(singles);
  expect_culprit(singles.findings[0], Cause::kLateRank, 1);
}

/// Each rank takes its own time to warm up, and all scatter afterwards.
TEST(LateRank, WarmingUpMakesNoRankLateWhoScattersLater) {
  const auto warm_up = [](int64_t step) {
    return step < 3 ? Lateness{static_cast<int>(step), 600 * kNsPerMs}
                    : Lateness{static_cast<int>(step % 3), step < 40 ? 0 : 15 * kNsPerMs};
  };
  const Report report = report_of_turns(warm_up);
  EXPECT_TRUE(report.findings.empty()) << reported(report);
}

/// With uneven batches the ranks are last in turn, one of them more often by chance.
TEST(LateRank, MoreOftenByChanceIsNotLate) {
  const auto turns = [](size_t others) {
    return [others](int64_t step) {
      constexpr std::array kOthers{0, 2, 3};
      const auto at = static_cast<size_t>(step - 60);
      return step < 60 || step >= 68 ? Lateness{} : Lateness{at < others ? kOthers.at(at) : 1, 140 * kNsPerMs};
    };
  };
  EXPECT_TRUE(report_of_turns(turns(3)).findings.empty());
  const Report always = report_of_turns(turns(0));
  ASSERT_EQ(always.findings.size(), 1U) << reported(always);
  expect_culprit(always.findings[0], Cause::kLateRank, 1);
}

}  // namespace
}  // namespace stalltrace::analysis
