// SPDX-License-Identifier: Apache-2.0
// Live findings in a recording that is being written.
#include <gtest/gtest.h>

#include "store/findings.h"
#include "store/testing/test_support.h"
#include "store/write/writer.h"

namespace stalltrace::store {
namespace {

Finding finding_of(Cause cause, double stall_ms) {
  Finding finding{.cause = cause};
  finding.stall_ms = stall_ms;
  finding.detected_ns = 5'000;
  finding.summary = "slow";
  return finding;
}

TEST(LiveFindings, AreReadableWhileTheTraceGoesOnAndReplacedAsTheyChange) {
  const TemporaryFolder folder;
  const std::string path = folder / "live.db";
  auto writer = RecordingWriter::create(path);
  ASSERT_TRUE(writer.has_value());
  (*writer)->accept_finding(1, finding_of(Cause::kUnknown, 10));
  Finding of_node = finding_of(Cause::kLateRank, 20);
  of_node.culprit = Culprit{.node = "node2", .rank = {}};
  (*writer)->accept_finding(2, of_node);
  ASSERT_TRUE((*writer)->flush().has_value());
  auto read = read_findings(path);
  ASSERT_TRUE(read.has_value());
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ((*read)[1].cause, Cause::kLateRank);
  EXPECT_EQ((*read)[1].detected_ns, 5'000);
  ASSERT_TRUE((*read)[1].culprit.has_value()) << "a node without a rank";
  EXPECT_EQ((*read)[1].culprit->node, "node2");
  EXPECT_FALSE((*read)[1].culprit->rank.has_value());
  EXPECT_FALSE((*read)[1].ended_ns.has_value());

  Finding ended = finding_of(Cause::kLateRank, 30);
  ended.ended_ns = 9'000;
  (*writer)->accept_finding(2, ended);
  ASSERT_TRUE((*writer)->close().has_value());
  read = read_findings(path);
  ASSERT_TRUE(read.has_value());
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ((*read)[0].cause, Cause::kUnknown);
  EXPECT_EQ((*read)[1].stall_ms, 30);
  EXPECT_EQ((*read)[1].ended_ns, 9'000);
}

TEST(LiveFindings, AreReadAsWritten) {
  const TemporaryFolder folder;
  Finding finding;
  finding.cause = Cause::kLateRank;
  finding.severity = Severity::kHigh;
  finding.confidence = 0.97;
  finding.culprit = Culprit{"node2", 2, 4711};
  finding.link = LinkEndpoints{1, std::nullopt, Endpoint{"10.77.0.2", 40112}, Endpoint{"fe80::1", 22}};
  finding.comm_id_hash = 0xfedcba9876543210;
  finding.op = Operation::kAllGather;
  finding.collectives_affected = 37;
  finding.stall_ms = 5120.4;
  finding.window = {10, 20};
  finding.summary = "rank 2's computing was late";
  finding.evidence = {{"tcp_retransmit_skb", 120, "a \"text\"", {make_event_id(0x7fffff, 9), make_event_id(1, 2)}}};
  finding.remedy = "look";
  const auto writer = must(RecordingWriter::create(folder / "r.db"));
  writer->accept_finding(1, finding);
  writer->accept_finding(2, Finding{});
  must(writer->close());
  const auto read = must(read_findings(folder / "r.db"));
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].cause, finding.cause);
  EXPECT_EQ(read[0].severity, finding.severity);
  EXPECT_EQ(read[0].confidence, finding.confidence);
  EXPECT_EQ(read[0].culprit->node, "node2");
  EXPECT_EQ(read[0].culprit->rank, 2);
  EXPECT_EQ(read[0].culprit->pid, 4711);
  EXPECT_EQ(read[0].link->src_rank, 1);
  EXPECT_EQ(read[0].link->dst_rank, std::nullopt);
  EXPECT_EQ(read[0].link->src, finding.link->src);
  EXPECT_EQ(read[0].link->dst, finding.link->dst);
  EXPECT_EQ(read[0].comm_id_hash, finding.comm_id_hash);
  EXPECT_EQ(read[0].op, finding.op);
  EXPECT_EQ(read[0].collectives_affected, 37);
  EXPECT_EQ(read[0].stall_ms, 5120.4);
  EXPECT_EQ(read[0].window.from_ns, 10);
  EXPECT_EQ(read[0].window.to_ns, 20);
  EXPECT_EQ(read[0].summary, finding.summary);
  ASSERT_EQ(read[0].evidence.size(), 1U);
  EXPECT_EQ(read[0].evidence[0].kind, "tcp_retransmit_skb");
  EXPECT_EQ(read[0].evidence[0].count, 120);
  EXPECT_EQ(read[0].evidence[0].text, "a \"text\"");
  EXPECT_EQ(read[0].evidence[0].events, finding.evidence[0].events);
  EXPECT_EQ(read[0].remedy, "look");
  EXPECT_FALSE(read[1].culprit.has_value());
  EXPECT_FALSE(read[1].link.has_value());
  EXPECT_EQ(read[1].window.from_ns, TimeRange{}.from_ns);
}

}  // namespace
}  // namespace stalltrace::store
