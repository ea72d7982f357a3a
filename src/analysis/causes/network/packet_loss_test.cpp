// SPDX-License-Identifier: Apache-2.0
// The location of loss if every rank communicates with every other; retransmissions without loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>

#include "analysis/explain.h"
#include "analysis/testing/slow_job.h"
#include "base/clock.h"
#include "tests/support/golden_text.h"

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

void congestion_state(MemorySource& source, int src, int dst, int64_t time_ns, int state) {
  TcpEvent event{.event_id = time_ns, .node_id = static_cast<NodeId>(src + 1), .event = TcpEventKind::kCongestionState};
  event.pid = 100 + src;
  event.cookie = cookie_of(src, dst);
  event.timestamp_ns = time_ns;
  event.state = state;
  source.accept(event);
}

using Evidence = std::function<void(MemorySource& source, int src, int dst, int64_t begin_ns)>;

/// In recovery from a few milliseconds after the start to the end.
void recovers_throughout(MemorySource& source, int src, int dst, int64_t begin_ns) {
  congestion_state(source, src, dst, begin_ns + 4 * kNsPerMs, 3);
  congestion_state(source, src, dst, begin_ns + kSlowNs - kNsPerMs, 0);
}

/// From the twentieth instance on, the chosen link has trouble for most of a long AllToAll.
Report report_of(LinkChoice lossy, const Evidence& evidence = recovers_throughout) {
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
    evidence(source, src, dst, begin);
  }
  const Result<ExplainResult> result = explain(source);
  EXPECT_TRUE(result.has_value());
  return result ? result->report : Report{};
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

/// A timeout early in the stall; then the sender has data, room and nothing in flight, and waits for its timer.
void holds_back(MemorySource& source, int src, int dst, int64_t begin_ns, uint64_t unacked) {
  const int64_t recovered_ns = begin_ns + 42 * kNsPerMs;
  congestion_state(source, src, dst, begin_ns + 40 * kNsPerMs, 4);
  congestion_state(source, src, dst, recovered_ns, 0);
  TcpSample sample{.node_id = static_cast<NodeId>(src + 1), .cookie = cookie_of(src, dst)};
  sample.pid = 100 + src;
  sample.bytes_acked = static_cast<uint64_t>(begin_ns);
  sample.snd_wnd = 1'000'000;
  for (const int64_t time_ns : {recovered_ns, recovered_ns + 50 * kNsPerMs}) {
    sample.timestamp_ns = time_ns;
    sample.notsent_bytes += 30'000;
    sample.unacked_bytes = static_cast<uint32_t>(unacked);
    source.accept(sample);
  }
  sample.timestamp_ns = begin_ns + kSlowNs - kNsPerMs;
  sample.bytes_acked += 60'000;
  sample.notsent_bytes = 0;
  source.accept(sample);
}

TEST(PacketLoss, WhatIsHeldBackAfterATimeoutIsItsCost) {
  const LinkChoice link = [](int) { return std::pair{3, 1}; };
  const Report held = report_of(link, [](MemorySource& source, int src, int dst, int64_t begin_ns) {
    holds_back(source, src, dst, begin_ns, 0);
  });
  ASSERT_EQ(held.findings.size(), 1U);
  EXPECT_EQ(held.findings[0].cause, Cause::kPacketLoss);
  EXPECT_EQ(held.findings[0].link->src_rank, 3);
  const Report under_way = report_of(link, [](MemorySource& source, int src, int dst, int64_t begin_ns) {
    holds_back(source, src, dst, begin_ns, 5000);
  });
  ASSERT_EQ(under_way.findings.size(), 1U);
  EXPECT_EQ(under_way.findings[0].cause, Cause::kUnknown) << "nothing shows that it waited for its timer";
}

TEST(PacketLoss, TheProbeOfASinglePacketComesAfterALongSilence) {
  const auto report_with = [](uint32_t packets_out) {
    return report_of(
        [](int) {
          return std::pair{3, 1};
        },
        [&](MemorySource& source, int src, int dst, int64_t begin_ns) {
          const auto node = static_cast<NodeId>(src + 1);
          const int64_t time_ns = begin_ns + kSlowNs - 2 * kNsPerMs;
          TcpEvent repeat{.event_id = time_ns, .node_id = node, .event = TcpEventKind::kRetransmit};
          TcpSample sample{.node_id = node, .cookie = cookie_of(src, dst)};
          repeat.pid = sample.pid = 100 + src;
          repeat.cookie = sample.cookie;
          repeat.len = sample.unacked_bytes = 64;
          repeat.timestamp_ns = time_ns;
          sample.timestamp_ns = time_ns + 2 * kNsPerUs;
          sample.packets_out = packets_out;
          source.accept(repeat);
          source.accept(sample);
        });
  };
  const Report alone = report_with(1);
  ASSERT_EQ(alone.findings.size(), 1U);
  EXPECT_EQ(alone.findings[0].cause, Cause::kPacketLoss);
  EXPECT_EQ(alone.findings[0].link->src_rank, 3);
  const Report among_others = report_with(3);
  ASSERT_EQ(among_others.findings.size(), 1U);
  EXPECT_EQ(among_others.findings[0].cause, Cause::kUnknown) << "such a probe comes after two round trips";
}

/// Its host has a smaller timeout: bytes were acknowledged 130 ms before the timer fired.
TEST(PacketLoss, TimeoutsAfterLessThanTheUsualSilenceAreCounted) {
  const Report report = report_of(
      [](int) {
        return std::pair{3, 1};
      },
      [](MemorySource& source, int src, int dst, int64_t begin_ns) {
        congestion_state(source, src, dst, begin_ns + 140 * kNsPerMs, 4);
        congestion_state(source, src, dst, begin_ns + kSlowNs - kNsPerMs, 0);
        TcpSample sample{.node_id = static_cast<NodeId>(src + 1)};
        sample.cookie = cookie_of(src, dst);
        sample.pid = 100 + src;
        for (const int64_t after_ns : {5 * kNsPerMs, 10 * kNsPerMs}) {
          sample.timestamp_ns = begin_ns + after_ns;
          sample.bytes_acked = static_cast<uint64_t>(sample.timestamp_ns);
          source.accept(sample);
        }
      });
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].cause, Cause::kPacketLoss);
  const auto evidence = small_job::evidence_of(report.findings[0], "tcp_cong_state_set");
  EXPECT_EQ(evidence.count, 40);
  golden::expect_text(evidence.text);
}

TEST(PacketLoss, TwoUnrelatedLinksAreTwoFindings) {
  const Report report = report_of([](int i) { return i % 2 == 0 ? std::pair{0, 1} : std::pair{2, 3}; });
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_FALSE(report.findings[0].culprit.has_value());
  EXPECT_FALSE(report.findings[1].culprit.has_value());
}

TEST(PacketLossNeedless, WhatThePeerHadAlreadyWasNotLost) {
  for (const bool needless : {true, false}) {
    MemorySource source = small_job::lossy_job();
    for (int64_t step = 0; step < small_job::kSteps; ++step) {
      const int64_t repeats = std::max<int64_t>(0, step - small_job::kSlowFrom);
      for (const bool after : {false, true}) {
        TcpSample sample =
            small_job::sample_of(1, small_job::kOut, small_job::begin_of(step) + (after ? small_job::kSlowNs : 0));
        sample.bytes_acked = static_cast<uint64_t>(step + 1) * 1'000'000;
        sample.total_retrans = static_cast<uint32_t>(repeats + (after && step >= small_job::kSlowFrom ? 1 : 0));
        sample.dsack_dups = needless ? sample.total_retrans : 0;
        source.accept(sample);
      }
    }
    EXPECT_EQ(small_job::only(source).cause, needless ? Cause::kUnknown : Cause::kPacketLoss);
  }
}

TEST(PacketLossAttribution, AConnectionOfAnotherCommunicatorIsNoEvidence) {
  constexpr CommHash kOther = 78;
  constexpr CommHash kNoCalls = 79;
  for (const CommHash carried : {CommHash{0}, small_job::kHash, kOther, kNoCalls}) {
    MemorySource source = small_job::lossy_job();
    small_job::add_communicator(source, kOther);
    small_job::attribute(source, 1, small_job::kOut, carried);
    EXPECT_EQ(small_job::only(source).cause, carried == kOther ? Cause::kUnknown : Cause::kPacketLoss) << carried;
  }
}

}  // namespace
}  // namespace stalltrace::analysis
