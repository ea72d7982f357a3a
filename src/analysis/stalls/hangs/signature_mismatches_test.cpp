// SPDX-License-Identifier: Apache-2.0
// Collectives that all ranks ended although their calls differed.
#include <gtest/gtest.h>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/small_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

constexpr int64_t kFirst = 40;
constexpr int64_t kLastCall = 49;

/// Rank 2 enters kFirst to kLastCall differently from the others; all end them in the usual time.
Ending otherwise(const std::function<void(Collective&)>& change) {
  Ending ending;
  ending.call = [change](int rank, int64_t step, Collective& call) {
    call.datatype = 7;
    call.reduce_op = 0;
    if (rank == 2 && step >= kFirst && step <= kLastCall) {
      change(call);
    }
    return true;
  };
  return ending;
}

/// In addition, `who` ends before the last call, in which the others wait: in good order, or killed.
Ending left_by(int who, Ending ending, bool killed = false) {
  ending.call = [before = ending.call, last = hang({who}).call](int rank, int64_t step, Collective& call) {
    return before(rank, step, call) && last(rank, step, call);
  };
  ending.process = [=](int rank, Process& process) {
    if (rank == who) {
      process.exit_ns = kLastArrivalNs - 10 * kNsPerMs;
      process.exit_code = 0;
      process.exit_signal = killed ? std::optional(9) : std::nullopt;
    }
  };
  return ending;
}

TEST(WrongData, CollectivesThatRanksEndedInDisagreementAreReported) {
  const std::vector<std::function<void(Collective&)>> changes = {
      [](Collective& call) { call.bytes /= 2; },
      [](Collective& call) { call.datatype = 6; },
      [](Collective& call) { call.reduce_op = 2; },
      [](Collective& call) { call.op = Operation::kReduce; },
  };
  for (const auto& change : changes) {
    const Report report = report_of(otherwise(change));
    ASSERT_EQ(report.findings.size(), 1U) << reported(report);
    const Finding& finding = report.findings[0];
    EXPECT_EQ(finding.cause, Cause::kMismatchedCollective) << finding.summary;
    EXPECT_EQ(finding.severity, Severity::kCritical);
    ASSERT_TRUE(finding.culprit.has_value());
    EXPECT_EQ(finding.culprit->rank, 2);
    EXPECT_EQ(finding.collectives_affected, kLastCall - kFirst + 1);
    EXPECT_LT(finding.stall_ms, 1) << "it cost no time";
  }
  expect_golden_text("mismatched_collective with wrong data", report_of(otherwise(changes[0])).findings.at(0));
}

TEST(WrongData, WhatIsNotKnownOfARankDisagreesWithNoRank) {
  const Report report = report_of(otherwise([](Collective& call) {
    call.datatype.reset();
    call.reduce_op.reset();
  }));
  EXPECT_TRUE(report.findings.empty()) << reported(report);
}

/// ncclRedOpCreatePreMulSum gives each process its own number.
TEST(WrongData, ReduceOpsThatAProgramMadeHaveOtherNumbersEverywhere) {
  Ending ending;
  ending.call = [](int rank, int64_t, Collective& call) {
    call.datatype = 7;
    call.reduce_op = 0x1234 + rank;
    return true;
  };
  const Report report = report_of(ending);
  EXPECT_TRUE(report.findings.empty()) << reported(report);
}

/// Another reduce-op leaves no rank without data.
TEST(WrongData, OfEqualSizeIsNotWhyOthersWaitLater) {
  const Report report = report_of(left_by(1, otherwise([](Collective& call) { call.reduce_op = 2; })));
  ASSERT_EQ(report.findings.size(), 2U) << reported(report);
  expect_culprit(report.findings[0], Cause::kDeadRank, 1);
}

TEST(WrongData, LibrariesThatAskForNoEqualCountsMayMixThem) {
  Ending ending = otherwise([](Collective& call) { call.bytes /= 2; });
  ending.call = [inner = ending.call](int rank, int64_t step, Collective& call) {
    call.library = Library::kMpi;
    call.op = Operation::kAllGather;
    return inner(rank, step, call);
  };
  const Report report = report_of(ending);
  EXPECT_TRUE(report.findings.empty()) << reported(report);
}

/// Data that rank 2 did not send is missing at the end, if it leaves in good order and the others wait; not if it was
/// killed.
TEST(WrongData, IsWhyOthersWaitForARankThatEndedInGoodOrder) {
  for (const bool killed : {false, true}) {
    const Report report = report_of(left_by(2, otherwise([](Collective& call) { call.bytes /= 2; }), killed));
    ASSERT_EQ(report.findings.size(), killed ? 2U : 1U) << reported(report);
    EXPECT_EQ(report.findings[0].cause, killed ? Cause::kDeadRank : Cause::kMismatchedCollective) << reported(report);
    expect_culprit(report.findings.back(), Cause::kMismatchedCollective, 2);
  }
}

}  // namespace
}  // namespace stalltrace::analysis
