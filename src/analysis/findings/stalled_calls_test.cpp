// SPDX-License-Identifier: Apache-2.0
// The calls of a finding's instances are rows of the recording.
#include "analysis/findings/stalled_calls.h"

#include <gtest/gtest.h>

#include "analysis/testing/slow_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

Finding found_in(MemorySource& source) {
  const Result<ExplainResult> result = explain(source, {.stalled_calls = true});
  EXPECT_TRUE(result && result->report.findings.size() == 1);
  return result->report.findings.at(0);
}

/// Each of them is a row, by node, process, time and number.
void expect_rows(MemorySource& source, const Finding& finding) {
  for (const StalledInstance& instance : finding.stalled) {
    for (const StalledCall& call : instance.calls) {
      int rows = 0;
      ASSERT_TRUE(source.collectives({}, [&](const Collective& row) {
        rows += row.node_id == call.node_id && row.pid == call.pid && row.timestamp_ns == call.arrival_ns &&
                        row.comm_id_hash == call.comm_id_hash && row.seq == call.seq && row.op == call.op
                    ? 1
                    : 0;
      }));
      EXPECT_EQ(rows, 1);
    }
  }
}

TEST(StalledCalls, AreThoseOfAllRanksInEachStalledInstance) {
  MemorySource source = lossy_job();
  const Finding finding = found_in(source);
  EXPECT_EQ(static_cast<int64_t>(finding.stalled.size()), finding.collectives_affected);
  for (const StalledInstance& instance : finding.stalled) {
    EXPECT_EQ(instance.calls.size(), static_cast<size_t>(kRanks));
    EXPECT_LT(instance.waited.from_ns, instance.waited.to_ns);
  }
  expect_rows(source, finding);
}

TEST(StalledCalls, OfAHangAreThoseThatWereMade) {
  MemorySource source;
  fill(source, hang({2}));
  const Finding finding = found_in(source);
  ASSERT_EQ(finding.stalled.size(), 1U);
  EXPECT_EQ(finding.stalled[0].calls.size(), static_cast<size_t>(kRanks - 1));
  expect_rows(source, finding);
}

TEST(StalledCalls, HaveTheTimesOfTheirNodesOwnClocks) {
  Ending ending = slow();
  const auto slow_call = ending.call;
  ending.node = [](int rank, Node& node) { node.boot_id = "boot" + std::to_string(rank); };
  ending.call = [slow_call](int rank, int64_t step, Collective& row) {
    const bool kept = slow_call(rank, step, row);
    row.timestamp_ns += rank == 3 ? kNsPerSecond : 0;
    return kept;
  };
  MemorySource source;
  fill(source, ending);
  const Result<ExplainResult> result = explain(source, {.stalled_calls = true});
  ASSERT_TRUE(result);
  ASSERT_FALSE(result->report.findings.empty());
  expect_rows(source, result->report.findings[0]);
  ASSERT_EQ(result->clocks.size(), static_cast<size_t>(kRanks));
  EXPECT_NEAR(static_cast<double>(result->clocks[3].shift_ns), -1e9, 2e7);
  EXPECT_TRUE(result->clocks[3].error_ns);
}

TEST(StalledCalls, AreLeftOutUnlessAskedFor) {
  MemorySource source = lossy_job();
  EXPECT_TRUE(explain(source)->report.findings.at(0).stalled.empty());
}

}  // namespace
}  // namespace stalltrace::analysis
