// SPDX-License-Identifier: Apache-2.0
// Drops by a full queue of a host, and drops that are too few to matter.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "analysis/causes/cause.h"
#include "analysis/testing/golden_text.h"
#include "analysis/testing/loaded_job.h"
#include "analysis/testing/slow_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

TEST(HostDrop, AFullQueueAtTheReceiversHostIsTheCause) {
  MemorySource source = lossy_job();
  drop(source, true, "CPU_BACKLOG");
  const Finding finding = only(source);
  expect_culprit(finding, Cause::kHostDrop, 2);
  EXPECT_EQ(evidence_of(finding, "packet_drop").count, kSteps - kSlowFrom);
  EXPECT_EQ(evidence_of(finding, "tcp_retransmit_skb").count, kSteps - kSlowFrom);
  expect_golden_text("host_drop on the way in", finding);
}

TEST(HostDrop, AFullQueueAtTheSendersHostIsTheCause) {
  MemorySource source = lossy_job();
  drop(source, false, "QDISC_DROP");
  const Finding finding = only(source);
  expect_culprit(finding, Cause::kHostDrop, 1);
  expect_golden_text("host_drop on the way out", finding);
}

TEST(HostDrop, AReasonThatIsNotInTheTableIsReportedByItsName) {
  MemorySource source = lossy_job();
  drop(source, true, "SOMETHING_NEW");
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kHostDrop);
  expect_golden_text("host_drop for an unknown reason", finding);
}

/// A second rank, which calls on a communicator of its own, is on the node of rank 2.
TEST(HostDrop, ASocketIsItsRanksAndAQueueIsTheNodes) {
  for (const std::string reason : {"SOCKET_RCVBUFF", "TCP_OFO_QUEUE_PRUNE", "CPU_BACKLOG"}) {
    MemorySource source = lossy_job();
    Process second{.node_id = node_of_rank(2), .pid = 20, .exe = "/opt/job/train"};
    second.rank = kRanks;
    source.accept(second);
    Collective own = call_of(2, 0, 99);
    own.pid = own.tid = second.pid;
    own.nranks = 1;
    source.accept(own);
    drop(source, true, reason);
    const LoadedJob job(std::move(source));
    const Stall stall = slow_transfer(job, {begin_of(kSlowFrom), begin_of(kSlowFrom) + kSlowNs});
    std::vector<Hypothesis> hypotheses;
    rule_of(Cause::kHostDrop).judge(job.context(), stall, hypotheses);
    ASSERT_EQ(hypotheses.size(), 1U) << reason;
    const FaultLocation& location = hypotheses[0].location;
    if (reason == "CPU_BACKLOG") {
      EXPECT_EQ(location.node, node_of_rank(2));
      EXPECT_EQ(location.culprit, kNoMember);
    } else {
      ASSERT_NE(location.culprit, kNoMember) << reason;
      EXPECT_EQ(job.cluster.member(location.culprit).rank, 2) << reason;
      EXPECT_FALSE(location.node) << reason;
    }
  }
}

TEST(HostDrop, AFewDropsAmongManyRepeatsAreNotTheCause) {
  MemorySource source = lossy_job();
  drop(source, true, "CPU_BACKLOG", kSegment / 10);
  EXPECT_EQ(only(source).cause, Cause::kPacketLoss);
}

}  // namespace
}  // namespace stalltrace::analysis
