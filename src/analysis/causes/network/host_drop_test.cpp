// SPDX-License-Identifier: Apache-2.0
// Drops by a full queue of a host, and drops that are too few to matter.
#include <gtest/gtest.h>

#include "analysis/testing/golden_text.h"
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

TEST(HostDrop, AFewDropsAmongManyRepeatsAreNotTheCause) {
  MemorySource source = lossy_job();
  drop(source, true, "CPU_BACKLOG", kSegment / 10);
  EXPECT_EQ(only(source).cause, Cause::kPacketLoss);
}

}  // namespace
}  // namespace stalltrace::analysis
