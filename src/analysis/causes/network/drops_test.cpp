// SPDX-License-Identifier: Apache-2.0
// The reported location of lost packets: inside a host, or between the two.
#include <gtest/gtest.h>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/slow_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

TEST(PacketLossSide, AFirewallsDropsAreReportedWithTheirSide) {
  MemorySource source = lossy_job();
  drop(source, true, "NETFILTER_DROP");
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kPacketLoss);
  EXPECT_EQ(evidence_of(finding, "packet_drop").count, kSteps - kSlowFrom);
  EXPECT_TRUE(finding.remedy.starts_with("on node2,")) << "the proven side comes first: " << finding.remedy;
  expect_golden_text("packet_loss by a firewall", finding);
}

TEST(PacketLossSide, WhereNoHostDroppedThemTheyVanishedBetween) {
  MemorySource source = lossy_job();
  for (int rank = 0; rank < kRanks; ++rank) {
    source.accept(HostSample{node_of_rank(rank), begin_of(kSlowFrom), "drop_reasons_now", "", 1});
  }
  const Finding finding = only(source);
  EXPECT_EQ(evidence_of(finding, "packet_drop").count, 0);
  expect_golden_text("packet_loss between the hosts", finding);
}

TEST(PacketLossSide, WithoutCountsOfDropsNothingIsReported) {
  MemorySource source = lossy_job();
  EXPECT_EQ(count_of_kind(only(source), "packet_drop"), 0);
}

}  // namespace
}  // namespace stalltrace::analysis
