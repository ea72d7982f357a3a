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

/// Of rank 3, which only acknowledges what rank 2 sends, no data are lost.
TEST(PacketLossSide, AFirewallThatDropsWhatSeveralNodesSendProvesItsHost) {
  for (const bool several : {false, true}) {
    MemorySource source = lossy_job();
    drop(source, true, "NETFILTER_DROP");
    PacketDrop row{.node_id = node_of_rank(2), .timestamp_ns = begin_of(kSlowFrom + 1) + 2 * kNsPerMs, .cookie = kOut};
    row.incoming = true;
    row.reason = "NETFILTER_DROP";
    row.packets = 1;
    row.bytes = 52;
    if (several) {
      source.accept(row);
    }
    const Finding finding = only(source);
    EXPECT_EQ(finding.cause, Cause::kPacketLoss);
    ASSERT_EQ(finding.culprit.has_value(), several) << finding.summary;
    EXPECT_TRUE(!several || finding.culprit->rank == 2) << finding.summary;
  }
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
