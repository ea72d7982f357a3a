// SPDX-License-Identifier: Apache-2.0
// Where loss is placed when every rank talks to every other.
#include <gtest/gtest.h>

#include <array>

#include "analysis/explain.h"
#include "base/clock.h"

namespace stalltrace::analysis {
namespace {

constexpr int kRanks = 4;
constexpr int kInstances = 60;
constexpr int64_t kStart = 1'000 * kNsPerSecond;
constexpr int64_t kPeriodNs = 400 * kNsPerMs;
constexpr int64_t kSlowNs = 150 * kNsPerMs;

using LinkChoice = std::pair<int, int> (*)(int instance);

uint64_t cookie_of(int src, int dst) { return static_cast<uint64_t>(src * kRanks + dst + 1); }

void describe(MemorySource& source) {
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto node = static_cast<NodeId>(rank + 1);
    source.accept(Node{.node_id = node, .name = "node" + std::to_string(rank), .boot_id = "boot"});
    Process process{.node_id = node, .pid = 100 + rank};
    process.rank = rank;
    source.accept(process);
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == rank) {
        continue;
      }
      Connection row{.node_id = node, .cookie = cookie_of(rank, peer), .pid = 100 + rank};
      const auto port = [](int a, int b) { return static_cast<uint16_t>(10'000 + 10 * a + b); };
      row.source = {"10.0.0." + std::to_string(rank), port(rank, peer)};
      row.destination = {"10.0.0." + std::to_string(peer), port(peer, rank)};
      source.accept(row);
    }
  }
}

/// From the twentieth instance on, the chosen link recovers from loss for most of a long AllToAll.
Report report_of(LinkChoice lossy) {
  MemorySource source;
  describe(source);
  int64_t id = 0;
  for (int i = 0; i < kInstances; ++i) {
    const int64_t begin = kStart + i * kPeriodNs;
    const bool slow = i >= 20;
    for (int rank = 0; rank < kRanks; ++rank) {
      Collective call{.event_id = ++id, .node_id = static_cast<NodeId>(rank + 1), .op = Operation::kAllToAll};
      call.timestamp_ns = begin + rank * kNsPerUs;
      call.duration_ns = (slow ? kSlowNs : 5 * kNsPerMs) - rank * kNsPerUs;
      call.completion = Completion::kSync;
      call.seq = i;
      call.rank = rank;
      call.nranks = kRanks;
      call.comm_id_hash = 5;
      call.pid = 100 + rank;
      source.accept(call);
    }
    if (!slow) {
      continue;
    }
    const auto [src, dst] = lossy(i);
    TcpEvent event{.event_id = ++id, .node_id = static_cast<NodeId>(src + 1), .event = TcpEventKind::kCongestionState};
    event.pid = 100 + src;
    event.cookie = cookie_of(src, dst);
    event.timestamp_ns = begin + 4 * kNsPerMs;
    event.state = 3;
    source.accept(event);
    event.event_id = ++id;
    event.timestamp_ns = begin + kSlowNs - kNsPerMs;
    event.state = 0;
    source.accept(event);
  }
  const Result<Report> report = explain(source);
  EXPECT_TRUE(report.has_value());
  return report ? *report : Report{};
}

TEST(PacketLoss, OneLinkHasNoCulprit) {
  const Report report = report_of([](int) { return std::pair{3, 1}; });
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_FALSE(report.findings[0].culprit.has_value());
  EXPECT_EQ(report.findings[0].link->src_rank, 3);
  EXPECT_EQ(report.findings[0].link->dst_rank, 1);
}

TEST(PacketLoss, AllLinksIntoARankMakeItTheCulprit) {
  const Report report = report_of([](int i) { return std::pair{std::array{0, 1, 3}[static_cast<size_t>(i % 3)], 2}; });
  ASSERT_EQ(report.findings.size(), 1U);
  ASSERT_TRUE(report.findings[0].culprit.has_value());
  EXPECT_EQ(report.findings[0].culprit->rank, 2);
  EXPECT_EQ(report.findings[0].link->dst_rank, 2);
  EXPECT_EQ(report.findings[0].collectives_affected, 40);
}

TEST(PacketLoss, AllLinksOutOfARankMakeItTheCulprit) {
  const Report report = report_of([](int i) { return std::pair{2, std::array{0, 1, 3}[static_cast<size_t>(i % 3)]}; });
  ASSERT_EQ(report.findings.size(), 1U);
  ASSERT_TRUE(report.findings[0].culprit.has_value());
  EXPECT_EQ(report.findings[0].culprit->rank, 2);
  EXPECT_EQ(report.findings[0].link->src_rank, 2);
}

TEST(PacketLoss, TwoUnrelatedLinksAreTwoFindings) {
  const Report report = report_of([](int i) { return i % 2 == 0 ? std::pair{0, 1} : std::pair{2, 3}; });
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_FALSE(report.findings[0].culprit.has_value());
  EXPECT_FALSE(report.findings[1].culprit.has_value());
}

}  // namespace
}  // namespace stalltrace::analysis
