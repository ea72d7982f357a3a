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
  constexpr uint32_t kOfRank1 = kSteps - kSlowFrom;
  const auto blamed = [](uint32_t packets_of_rank3, const std::string& reason) {
    MemorySource source = lossy_job();
    drop(source, true, "NETFILTER_DROP");
    PacketDrop row{.node_id = node_of_rank(2), .timestamp_ns = begin_of(kSlowFrom + 1) + 2 * kNsPerMs, .cookie = kOut};
    row.incoming = true;
    row.reason = reason;
    row.packets = packets_of_rank3;
    row.bytes = uint64_t{52} * packets_of_rank3;
    source.accept(row);
    const Finding finding = only(source);
    EXPECT_EQ(finding.cause, Cause::kPacketLoss);
    EXPECT_TRUE(!finding.culprit || finding.culprit->rank == 2) << finding.summary;
    return finding.culprit.has_value();
  };
  EXPECT_TRUE(blamed(kOfRank1 / 4, "NETFILTER_DROP"));
  EXPECT_FALSE(blamed(1, "NETFILTER_DROP")) << "a stray packet";
  EXPECT_FALSE(blamed(kOfRank1 / 6, "NETFILTER_DROP")) << "few beside those of rank 1";
  EXPECT_FALSE(blamed(kOfRank1 / 4, "SOCKET_FILTER")) << "another rule";
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
