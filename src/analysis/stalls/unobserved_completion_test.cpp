// SPDX-License-Identifier: Apache-2.0
// Calls whose end is not reported: no hang by themselves, but they must not hide one.
#include <gtest/gtest.h>

#include "analysis/testing/small_job.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

constexpr int64_t kLast = kSteps - 1;

void leave_unobserved(Collective& call) {
  call.duration_ns.reset();
  call.launch_ns = 20 * kNsPerUs;
  call.completion = Completion::kUnobserved;
}

/// Changes the calls of these steps.
Ending from_step(int64_t first, int64_t last, const std::function<void(int rank, Collective&)>& change) {
  Ending ending;
  ending.call = [=](int rank, int64_t step, Collective& call) {
    if (step >= first && step <= last) {
      change(rank, call);
    }
    return true;
  };
  return ending;
}

std::string notes(const Report& report) {
  std::string text;
  for (const std::string& note : report.notes) {
    text += note + "\n";
  }
  return text;
}

TEST(Unobserved, TheLastCallIsANoteAndNoHang) {
  const Report report = report_of(from_step(kLast, kLast, [](int, Collective& call) { leave_unobserved(call); }));
  EXPECT_TRUE(report.findings.empty()) << reported(report);
  golden::expect_text(notes(report));
}

TEST(Unobserved, OthersBetweenCallsThatEndAreNothing) {
  const Report report = report_of(from_step(20, 40, [](int, Collective& call) { leave_unobserved(call); }));
  EXPECT_TRUE(report.findings.empty()) << reported(report);
  golden::expect_text(notes(report));
}

TEST(Unobserved, AllCallsAreANote) {
  const Report report = report_of(from_step(0, kLast, [](int, Collective& call) { leave_unobserved(call); }));
  EXPECT_TRUE(report.findings.empty()) << reported(report);
  golden::expect_text(notes(report));
}

Ending without_ends(int64_t late_ns) {
  return from_step(0, kLast, [=](int rank, Collective& call) {
    leave_open(call);
    call.launch_ns = 20 * kNsPerUs;
    call.timestamp_ns += rank == 2 ? late_ns : 0;
  });
}

/// Calls on a GPU of a program that never synchronises: CPUs are apart, and no rank is known to have waited.
TEST(Unobserved, ARankBehindOthersThatGoOnIsNotLate) {
  const Report report = report_of(without_ends(150 * kNsPerMs));
  EXPECT_TRUE(report.findings.empty()) << reported(report);
}

/// They may wait in a way that is not seen.
TEST(Unobserved, ARankThatOthersDoNotGoOnWithoutIsLate) {
  const Report report = report_of(without_ends(30 * kNsPerMs));
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  expect_culprit(report.findings[0], Cause::kLateRank, 2);
}

TEST(Unobserved, DoesNotHideTheHangBeforeIt) {
  Ending ending = from_step(kLast - 1, kLast - 1, [](int, Collective& call) { leave_open(call); });
  ending.call = [hung = ending.call](int rank, int64_t step, Collective& call) {
    if (step == kLast) {
      leave_unobserved(call);
    }
    return hung(rank, step, call);
  };
  const Report report = report_of(ending);
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  EXPECT_EQ(report.findings[0].severity, Severity::kCritical);
}

TEST(Unobserved, OthersBeforeDoNotHideAHang) {
  Ending ending = from_step(0, kLast - 1, [](int, Collective& call) { leave_unobserved(call); });
  ending.call = [unobserved = ending.call](int rank, int64_t step, Collective& call) {
    if (step == kLast) {
      leave_open(call);
    }
    return unobserved(rank, step, call);
  };
  const Report report = report_of(ending);
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  EXPECT_EQ(report.findings[0].severity, Severity::kCritical);
}

TEST(Unobserved, ARankThatNeverCameIsMissedOnlyWhereOthersAreOpen) {
  const auto job = [](const std::function<void(Collective&)>& end) {
    Ending ending;
    ending.call = [=](int rank, int64_t step, Collective& call) {
      if (step == kLast) {
        end(call);
      }
      return rank != 2 || step < kLast;
    };
    return report_of(ending);
  };
  expect(job(leave_open), Cause::kMissingCollective, 2);
  const Report report = job(leave_unobserved);
  EXPECT_TRUE(report.findings.empty()) << reported(report);
}

TEST(Unobserved, ARankInAnotherCallIsThereThoughItMadeOthersSince) {
  const auto job = [](bool inside, bool others_since) {
    constexpr CommHash kOther = 99;
    MemorySource source;
    Ending ending;
    ending.call = [](int rank, int64_t step, Collective& call) {
      if (step == kLast) {
        leave_open(call);
      }
      return rank != 2 || step < kLast;
    };
    fill(source, ending);
    for (int rank = 0; rank < kRanks; ++rank) {
      source.accept(call_of(rank, 0, kOther));
    }
    Collective call = call_of(2, kLast, kOther);
    call.seq = 1;
    leave_open(call);
    if (inside) {
      source.accept(call);
    }
    call.event_id += 1;
    call.seq = 2;
    leave_unobserved(call);
    if (others_since) {
      source.accept(call);
    }
    return reported(report_of(source));
  };
  EXPECT_EQ(job(true, true), job(true, false));
  EXPECT_NE(job(true, true), job(false, false));
}

TEST(Unobserved, ADisagreementWithARankInAnUnobservedCallIsFound) {
  const Report report = report_of(from_step(kLast, kLast, [](int rank, Collective& call) {
    leave_open(call);
    if (rank == 1) {
      call.op = Operation::kBroadcast;
      leave_unobserved(call);
    }
  }));
  expect(report, Cause::kMismatchedCollective, 1);
}

TEST(Unobserved, WhatARankSendsToItselfIsNotEvenANote) {
  MemorySource source;
  fill(source, {});
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      for (const Operation op : {Operation::kSend, Operation::kRecv}) {
        Collective call = call_of(rank, step);
        call.event_id += op == Operation::kSend ? 2'000'000 : 3'000'000;
        call.op = op;
        call.peer = rank;
        leave_unobserved(call);
        source.accept(call);
      }
    }
  }
  const Report report = report_of(source);
  EXPECT_TRUE(report.findings.empty()) << reported(report);
  EXPECT_EQ(notes(report), notes(report_of(Ending{})));
}

}  // namespace
}  // namespace stalltrace::analysis
