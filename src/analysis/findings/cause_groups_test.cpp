// SPDX-License-Identifier: Apache-2.0
// Groups that belong to other findings, and evidence of overlapping stalls.
#include "analysis/findings/cause_groups.h"

#include <gtest/gtest.h>

#include <set>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/slow_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

/// A job that loses packets in most steps; step kSlowFrom - 5 takes `longer_ns` longer without a visible reason.
MemorySource lossy_job_with_riddle(int64_t longer_ns) {
  MemorySource lossy = lossy_job();
  MemorySource source;
  describe(source, slow());
  const std::vector<Connection> connections = lossy.connections().value_or(std::vector<Connection>{});
  for (const Connection& connection : connections) {
    source.accept(connection);
  }
  const auto copy = [&](const auto& row) { source.accept(row); };
  EXPECT_TRUE(lossy.tcp_events({}, copy).has_value());
  EXPECT_TRUE(lossy
                  .collectives({},
                               [&](Collective call) {
                                 const int64_t step = *call.seq;
                                 if (step == kSlowFrom - 5) {
                                   *call.duration_ns += longer_ns;
                                 } else if (step < kSlowFrom - 5) {
                                   call.timestamp_ns -= longer_ns;
                                 }
                                 call.timestamp_ns -= step == kSlowFrom - 5 ? longer_ns : 0;
                                 source.accept(call);
                               })
                  .has_value());
  return source;
}

TEST(Subsumption, AFewUnexplainedStallsAreALineOfTheExplainedFinding) {
  MemorySource source = lossy_job_with_riddle(510 * kNsPerMs);
  const Finding finding = only(source);
  expect_link(finding, Cause::kPacketLoss, 1, 2);
  EXPECT_EQ(evidence_of(finding, "rule").count, 1) << "instances";
  expect_golden_text("packet_loss with unexplained stalls", finding);
}

TEST(Subsumption, AnExpensiveUnexplainedStallIsAFindingOfItsOwn) {
  MemorySource source = lossy_job_with_riddle(3 * kNsPerSecond);
  const Report report = report_of(source);
  ASSERT_EQ(report.findings.size(), 2U) << reported(report);
  EXPECT_EQ(report.findings[0].cause, Cause::kUnknown);
  EXPECT_EQ(report.findings[1].cause, Cause::kPacketLoss);
  EXPECT_EQ(count_of_kind(report.findings[1], "rule"), 0);
}

/// Ranks have the same slow calls on a second communicator: two simultaneous stalls see the same retransmissions.
TEST(CauseGroups, EvidenceOfOverlappingStallsCountsOnce) {
  MemorySource source = lossy_job();
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      Collective call = call_of(rank, step, kHash + 1);
      slow().call(rank, step, call);
      source.accept(call);
    }
  }
  const Finding finding = only(source);
  expect_link(finding, Cause::kPacketLoss, 1, 2);
  EXPECT_EQ(finding.collectives_affected, 2 * (kSteps - kSlowFrom));
  EXPECT_EQ(evidence_of(finding, "tcp_retransmit_skb").count, kSteps - kSlowFrom);
  expect_golden_text("packet_loss on two communicators", finding);
}

TEST(CauseGroups, NoEventIsNamedTwiceInALineOfEvidence) {
  MemorySource source = lossy_job();
  const Finding finding = only(source);
  for (const Evidence& evidence : finding.evidence) {
    EXPECT_EQ(std::set(evidence.events.begin(), evidence.events.end()).size(), evidence.events.size()) << evidence.kind;
  }
}

}  // namespace
}  // namespace stalltrace::analysis
