// SPDX-License-Identifier: Apache-2.0
#include "analysis/captures/judge_captures.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "model/memory_source.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kSecond = kNsPerSecond;

PacketFlow flow(int number, int from, int to) {
  PacketFlow row{.node_id = 1, .flow = number, .started_ns = 0, .duration_ns = 60 * kSecond};
  row.source = {fmt::format("10.0.0.{}", from), static_cast<uint16_t>(5000 + number)};
  row.destination = {fmt::format("10.0.0.{}", to), 29500};
  row.packets = 1000;
  row.payload_bytes = 1'448'000;
  row.largest_delivered_bytes = 1448;
  return row;
}

/// The flow, with `segments` of its segments sent again.
PacketFlow again(PacketFlow row, int64_t segments) {
  row.retransmits = segments;
  row.retransmitted_bytes = segments * 1448;
  return row;
}

CaptureSummary judged(std::vector<PacketFlow> flows, PacketCapture capture = {},
                      const std::vector<Connection>& connections = {}) {
  MemorySource source;
  capture.node_id = 1;
  capture.duration_ns = 60 * kSecond;
  capture.file = "net.pcap";
  capture.flows = std::ssize(flows);
  source.accept(capture);
  for (PacketFlow& one : flows) {
    source.accept(std::move(one));
  }
  for (const Connection& one : connections) {
    source.accept(one);
  }
  Report report;
  EXPECT_TRUE(add_captures(source, report));
  EXPECT_EQ(report.captures.size(), 1U);
  return report.captures.at(0);
}

PacketFlow stuck(int number, int from, int to) {
  PacketFlow row = flow(number, from, to);
  row.retransmits = 7;
  row.unacked_bytes = 100'000;
  row.unacked_ns = 25 * kSecond;
  row.repeats = 7;
  row.repeated_bytes = 1448;
  return row;
}

TEST(Captures, AFewRetransmissionsAreNoTrouble) {
  PacketFlow one = again(flow(1, 1, 2), 9);
  one.reordered = 500;
  one.duplicate_acks = 500;
  one.zero_windows = 1;
  one.zero_window_ns = 100 * kNsPerMs;
  PacketFlow short_one = again(flow(2, 2, 1), 2);
  short_one.packets = 4;
  short_one.payload_bytes = 4 * 1448;
  PacketFlow spurious = again(flow(3, 2, 1), 400);
  spurious.spurious = 400;
  EXPECT_TRUE(judged({one, short_one, spurious}).flows.empty());
}

TEST(Captures, LossSaysOnWhichSideOfTheCapture) {
  PacketFlow before = again(flow(1, 1, 2), 40);
  before.lost_before = 40;
  const PacketFlow behind = again(flow(2, 1, 3), 30);
  PacketFlow both = again(flow(3, 3, 1), 20);
  both.lost_before = 5;
  both.spurious = 1;
  const CaptureSummary got = judged({both, behind, before});
  ASSERT_EQ(got.flows.size(), 3U);
  EXPECT_EQ(got.flows[0].flow.flow, 1);
  for (const FlowSummary& one : got.flows) {
    ASSERT_EQ(one.remarks.size(), 1U);
    golden::expect_text(one.remarks[0]);
  }
  EXPECT_TRUE(got.remarks.empty());
}

TEST(Captures, WhatIsNeverAcknowledgedIsAPathThatIsGone) {
  const CaptureSummary got = judged({flow(1, 1, 3), stuck(2, 1, 2)});
  ASSERT_EQ(got.flows.size(), 1U);
  golden::expect_text(got.flows[0].remarks.at(0));
}

/// Flows that are there at once: MemorySource compares each new one with all that it has.
struct ManyFlows : EventSource {
  std::vector<PacketFlow> flows;
  MemorySource others;

  Status read_state(AnyRows rows) override {
    if (auto* const all = std::get_if<std::vector<PacketFlow>*>(&rows)) {
      **all = flows;
      return {};
    }
    return others.read_state(rows);
  }
  Status read_stream(TimeRange range, AnyVisitor visitor) override { return others.read_stream(range, visitor); }
};

/// As many as a capture may have, all cut off at once.
TEST(Captures, AnOutageOfManyConnectionsIsJudgedInTime) {
  ManyFlows source;
  for (int i = 0; i < 65'536; ++i) {
    source.flows.push_back(stuck(i, 1, 2));
    source.flows.back().largest_delivered_bytes = 0;
  }
  source.others.accept(PacketCapture{.node_id = 1, .duration_ns = 60 * kSecond, .flows = 65'536});
  Report report;
  const int64_t begun_ns = monotonic_now_ns();
  ASSERT_TRUE(add_captures(source, report));
  EXPECT_LT(monotonic_now_ns() - begun_ns, 3 * kSecond);
  ASSERT_EQ(report.captures.size(), 1U);
  EXPECT_EQ(report.captures[0].flows.size(), 16U);
  EXPECT_EQ(report.captures[0].more_flows, 65'520);
}

TEST(Captures, APeerThatStillSendsIsThere) {
  PacketFlow back = flow(2, 2, 1);
  const PacketFlow gone = stuck(1, 1, 2);
  back.source = gone.destination;
  back.destination = gone.source;
  golden::expect_text(judged({gone, back}).flows.at(0).remarks.at(0));
  back.duration_ns = 40 * kSecond;  // the last answer
  EXPECT_EQ(judged({gone, back}).flows.at(0).remarks.at(0), judged({gone}).flows.at(0).remarks.at(0));
}

/// The same while smaller segments pass: on this connection before, or on another one in that time.
TEST(Captures, OnlyLargeSegmentsAreLost) {
  PacketFlow early = stuck(1, 1, 2);
  early.largest_delivered_bytes = 300;
  golden::expect_text(judged({early}).flows.at(0).remarks.at(0));
  PacketFlow other = flow(2, 1, 2);
  other.started_ns = 40 * kSecond;
  other.largest_delivered_bytes = 64;
  golden::expect_text(judged({stuck(1, 1, 2), other}).flows.at(0).remarks.at(0));
  other.started_ns = 10 * kSecond;  // perhaps all of it before
  golden::expect_text(judged({stuck(1, 1, 2), other}).flows.at(0).remarks.at(0));
}

TEST(Captures, TheHostThatTheyHaveInCommon) {
  std::vector<PacketFlow> flows;
  for (int i = 1; i <= 4; ++i) {
    flows.push_back(again(flow(i, i, 9), 50));
    flows.push_back(again(flow(10 + i, 9, i), 1));
  }
  const CaptureSummary got = judged(flows);
  ASSERT_EQ(got.remarks.size(), 1U);
  golden::expect_text(got.remarks[0]);
}

/// In a capture on host 9 all flows have host 9 in common: nearly all of the loss is on the way to host 2.
TEST(Captures, TheHostOfTheCaptureIsNotAccusedOfOnePeersLoss) {
  const CaptureSummary got = judged({again(flow(1, 9, 2), 98), again(flow(2, 9, 3), 1), again(flow(3, 9, 4), 1)});
  EXPECT_TRUE(got.remarks.empty()) << got.remarks[0];
}

/// The sender's card splits packets of 64 KB; it repeats segments of 1448 bytes. 3 of 10,000 segments are no loss of 1
/// %.
TEST(Captures, LargePacketsDoNotMakeALossLarger) {
  PacketFlow one = again(flow(1, 1, 2), 3);
  one.packets = 250;
  one.payload_bytes = 14'480'000;
  EXPECT_TRUE(judged({one}).flows.empty());
}

TEST(Captures, ReceiversResetsAndSetUps) {
  PacketFlow closed = flow(1, 2, 1);
  closed.zero_windows = 2;
  closed.zero_window_ns = 5 * kSecond;
  PacketFlow reset = flow(2, 2, 1);
  reset.resets = 1;
  PacketFlow silent = flow(3, 1, 4);
  silent.packets = 4;
  silent.syn_retransmits = 3;
  const CaptureSummary got = judged({closed, reset, silent});
  ASSERT_EQ(got.flows.size(), 3U);
  for (const FlowSummary& one : got.flows) {
    golden::expect_text(one.remarks.at(0));
  }
}

TEST(Captures, RoutersMessagesAndHoles) {
  PacketCapture capture{
      .missed = 12, .too_big = 3, .least_mtu = 1400, .too_big_from = "10.0.0.9 about 10.0.0.1 to 10.0.0.2"};
  capture.unreachable = 1;
  PacketFlow one = flow(1, 1, 2);
  one.missing_bytes = 4096;
  const CaptureSummary got = judged({one}, capture);
  ASSERT_EQ(got.remarks.size(), 3U);
  for (const std::string& remark : got.remarks) {
    golden::expect_text(remark);
  }
}

TEST(Captures, RanksComeFromRecordingsOfTheSameHosts) {
  const PacketFlow one = stuck(1, 1, 2);
  Connection connection{.node_id = 5, .cookie = 7, .source = one.destination, .destination = one.source};
  connection.rank = 3;
  connection.peer_rank = 0;
  const CaptureSummary got = judged({one}, {}, {connection});
  EXPECT_EQ(got.flows.at(0).src_rank, 0);
  EXPECT_EQ(got.flows.at(0).dst_rank, 3);
  connection.source.port = 1;
  EXPECT_EQ(judged({one}, {}, {connection}).flows.at(0).src_rank, std::nullopt);
}

}  // namespace
}  // namespace stalltrace::analysis
