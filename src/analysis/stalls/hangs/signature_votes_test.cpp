// SPDX-License-Identifier: Apache-2.0
// Votes without a majority, which what all ranks entered before decides.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/small_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

constexpr int64_t kDiffers = 40;

/// All ranks enter sizes[step % sizes.size()]; from kDiffers on, ranks 0 and 2 enter those of `offset` steps later.
Ending half_ahead(std::vector<int64_t> sizes, int64_t offset) {
  Ending ending;
  ending.call = [=](int rank, int64_t step, Collective& call) {
    const int64_t at = step + (step >= kDiffers && rank % 2 == 0 ? offset : 0);
    call.bytes = sizes[static_cast<size_t>(at) % sizes.size()];
    return true;
  };
  return ending;
}

/// The evidence counts the ranks that entered the odd call.
bool has_odd_ones(const Finding& finding, int64_t count) {
  return std::ranges::any_of(finding.evidence,
                             [&](const Evidence& one) { return one.kind == "collective" && one.count == count; });
}

TEST(SignatureVotes, OfTwoAgainstTwoThoseWhoDifferFromBeforeAreTheOddOnes) {
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    call.bytes /= step == kDiffers && rank % 2 == 0 ? 2 : 1;
    return true;
  };
  const Report report = report_of(ending);
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  EXPECT_FALSE(report.findings[0].culprit.has_value()) << "two ranks";
  EXPECT_LE(report.findings[0].confidence, 0.9);
  expect_golden_text("mismatched_collective of two against two", report.findings[0]);
}

/// Ranks that left a call out enter a size that all have entered before, but not at this position of a step.
TEST(SignatureVotes, ThePositionInTheStepDecides) {
  const Report report = report_of(half_ahead({1 << 20, 2 << 20, 3 << 20, 4 << 20}, 1));
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings[0].cause, Cause::kMismatchedCollective) << reported(report);
  EXPECT_TRUE(has_odd_ones(report.findings[0], 2)) << report.findings[0].summary;
}

TEST(SignatureVotes, WhereNothingBeforeDecidesNoRankIsNamed) {
  struct Case {
    const char* what;
    std::function<void(int rank, int64_t step, Collective&)> change;
  };
  const Case cases[] = {
      {"no call came before",
       [](int rank, int64_t step, Collective& call) { call.bytes /= step == 0 && rank % 2 == 0 ? 2 : 1; }},
      {"an operation that none entered before",
       [](int rank, int64_t step, Collective& call) {
         call.op = step == kDiffers && rank % 2 == 0 ? Operation::kReduce : call.op;
       }},
      {"sizes that never repeat",
       [](int rank, int64_t step, Collective& call) {
         call.bytes = (1000 + step * step) * 4 + (step == kDiffers && rank % 2 == 0 ? 4 : 0);
       }},
  };
  for (const Case& one : cases) {
    Ending ending;
    ending.call = [&one](int rank, int64_t step, Collective& call) {
      one.change(rank, step, call);
      return true;
    };
    const Report report = report_of(ending);
    ASSERT_EQ(report.findings.size(), 1U) << one.what << reported(report);
    EXPECT_TRUE(has_odd_ones(report.findings[0], 0)) << one.what << report.findings[0].summary;
  }
}

}  // namespace
}  // namespace stalltrace::analysis
