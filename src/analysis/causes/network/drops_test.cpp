// SPDX-License-Identifier: Apache-2.0
// What is said of where lost packets vanished: inside a host, or between the two.
#include <gtest/gtest.h>

#include "analysis/testing/slow_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

TEST(PacketLossSide, AFirewallsDropsAreToldWithTheirSide) {
  MemorySource source = lossy_job();
  drop(source, true, "NETFILTER_DROP");
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kPacketLoss);
  expect_text(finding, "vanished inside the host of rank 2, on the way in (its firewall (netfilter), NETFILTER_DROP)");
}

TEST(PacketLossSide, WhereNoHostDroppedThemTheyVanishedBetween) {
  MemorySource source = lossy_job();
  for (int rank = 0; rank < kRanks; ++rank) {
    source.accept(HostSample{node_of_rank(rank), begin_of(kSlowFrom), "drop_reasons_now", "", 1});
  }
  expect_text(only(source), "neither end's host dropped any");
}

TEST(PacketLossSide, WithoutCountsOfDropsNothingIsSaid) {
  MemorySource source = lossy_job();
  EXPECT_EQ(text_of(only(source)).find("dropped any"), std::string::npos);
}

}  // namespace
}  // namespace stalltrace::analysis
