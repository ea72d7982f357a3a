// SPDX-License-Identifier: Apache-2.0
// Slow links and slow receivers, from the samples of a small job whose calls are slow.
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/network_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

TEST(SlowLink, TheBusyLinkFarBelowTheOthersIsNamed) {
  MemorySource source;
  fill_slow(source, [](int rank, int64_t at, TcpSample& sender, TcpSample&) {
    sender.busy_ns = rank == 2 ? static_cast<uint64_t>(at) * 50 * kNsPerMs : sender.busy_ns;
  });
  const Finding finding = only(source);
  expect_link(finding, Cause::kSlowLink, 2, 3);
  EXPECT_FALSE(finding.culprit.has_value());
  expect_golden_text("slow_link", finding);
}

/// A rank's acknowledgements queue behind the data it sends: sometimes the link into the rank is the slowest.
TEST(SlowLink, TheLinkIntoARankThatSendsSlowlyIsItsEcho) {
  constexpr int64_t kTurn = (kSteps - 8) * 20;
  for (const int other : {1, 0}) {  // rank 1 sends to rank 2
    MemorySource source;
    fill_slow(source, [&](int rank, int64_t at, TcpSample& sender, TcpSample&) {
      const int64_t busy = rank == 2 ? std::min(at, kTurn) : rank == other ? std::max<int64_t>(0, at - kTurn) : 0;
      sender.busy_ns = static_cast<uint64_t>((at - busy) * 2 + busy * 50) * kNsPerMs;
    });
    const Report report = report_of(source);
    ASSERT_EQ(report.findings.size(), other == 1 ? 1U : 2U) << reported(report);
    EXPECT_EQ(report.findings[0].cause, Cause::kSlowLink);
    EXPECT_EQ(report.findings[0].link->src_rank, 2);
  }
}

/// In the first part of the run's slow half, the link 1 -> 2 loses packets until `turn`; then the link out of rank
/// `slow` is slow.
void fill_slow_beside_loss(MemorySource& source, int slow, int64_t turn) {
  fill_slow(source, [&](int rank, int64_t at, TcpSample& sender, TcpSample&) {
    const int64_t busy = rank == slow ? std::max<int64_t>(0, at - turn * 20) : 0;
    sender.busy_ns = static_cast<uint64_t>((at - busy) * 2 + busy * 50) * kNsPerMs;
  });
  for (int64_t step = kSteps / 2; step < turn; ++step) {
    for (const int state : {4, 0}) {
      TcpEvent event = event_of(1, TcpEventKind::kCongestionState,
                                kOriginNs + step * kNsPerSecond + (state == 0 ? 390 : 1) * kNsPerMs);
      event.state = state;
      source.accept(event);
    }
  }
}

/// Without NCCL_SET_THREAD_NAME no connection has a thread of the library's name. Rank 1 has one to a store outside of
/// the job, or to rank 2, that recovers from loss in each slow call.
Report report_of_losses_to(const Endpoint& destination) {
  constexpr uint64_t kStore = 77;
  MemorySource source;
  fill_slow(source, [](int, int64_t, TcpSample&, TcpSample&) {});
  const Result<std::vector<Connection>> rows = source.connections();
  for (Connection row : *rows) {
    row.thread_name = "python3";
    source.accept(row);
  }
  Connection store{.node_id = node_of_rank(1), .cookie = kStore, .pid = 11, .family = 2};
  store.source = {"10.77.0.2", 41'000};
  store.destination = destination;
  store.opened_ns = kOriginNs;
  store.thread_name = "python3";
  source.accept(store);
  for (int64_t step = kSteps / 2; step < kSteps; ++step) {
    for (const int state : {4, 0}) {
      TcpEvent event = event_of(1, TcpEventKind::kCongestionState,
                                kOriginNs + step * kNsPerSecond + (state == 0 ? 390 : 1) * kNsPerMs);
      event.cookie = kStore;
      event.state = state;
      source.accept(event);
    }
  }
  return report_of(source);
}

TEST(PacketLoss, ToAnAddressOfNoRankIsNotWhatCallsWaitFor) {
  const auto lossy = [](const Report& report) {
    return std::ranges::count(report.findings, Cause::kPacketLoss, &Finding::cause);
  };
  EXPECT_EQ(lossy(report_of_losses_to({"10.77.0.3", 9'000})), 1);
  const Report report = report_of_losses_to({"198.51.100.7", 443});
  EXPECT_EQ(lossy(report), 0) << reported(report);
}

/// After losses a link sends with a small congestion window.
TEST(SlowLink, BetweenLossesIsALineOfThem) {
  for (const int slow : {1, 3}) {
    MemorySource source;
    fill_slow_beside_loss(source, slow, 80);
    const Report report = report_of(source);
    ASSERT_EQ(report.findings.size(), slow == 1 ? 1U : 2U) << reported(report);
    EXPECT_EQ(report.findings[0].cause, Cause::kPacketLoss) << reported(report);
    EXPECT_EQ(count_of_kind(report.findings[0], "rule"), slow == 1 ? 1 : 0);
    if (slow == 1) {
      expect_golden_text("packet_loss with a slow link between losses", report.findings[0]);
    }
  }
}

/// The acknowledgements of the links out of rank 2, and of those into rank 1, pass the host with losses.
TEST(SlowLink, WithoutItsAcknowledgementsIsALineOfTheLoss) {
  for (const int slow : {2, 0, 3}) {
    for (const int64_t turn : {90, 80}) {
      const bool echo = slow != 3 && turn == 90;
      MemorySource source;
      fill_slow_beside_loss(source, slow, turn);
      const Report report = report_of(source);
      ASSERT_EQ(report.findings.size(), echo ? 1U : 2U) << slow << " " << turn << " " << reported(report);
      EXPECT_EQ(report.findings[0].cause, Cause::kPacketLoss) << reported(report);
      EXPECT_EQ(count_of_kind(report.findings[0], "rule"), echo ? 1 : 0);
      if (echo && slow == 2) {
        expect_golden_text("packet_loss with a link whose acknowledgements are lost", report.findings[0]);
      }
    }
  }
}

TEST(SlowLink, WhatCarriesNextToNothingIsNotComparedWith) {
  MemorySource source;
  fill_slow(source, [](int rank, int64_t at, TcpSample& sender, TcpSample&) {
    sender.busy_ns = rank >= 2 ? static_cast<uint64_t>(at) * 50 * kNsPerMs : sender.busy_ns;
    sender.bytes_acked = rank == 3 ? static_cast<uint64_t>(at + 1) * 64 : sender.bytes_acked;
  });
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kSlowLink) << finding.summary;
  ASSERT_TRUE(finding.link.has_value());
  EXPECT_EQ(finding.link->src_rank, 2);
}

TEST(SlowLink, WhenAllAreEquallyBusyNoneIs) {
  MemorySource source;
  fill_slow(source, [](int, int64_t at, TcpSample& sender, TcpSample&) {
    sender.busy_ns = static_cast<uint64_t>(at) * 50 * kNsPerMs;
  });
  EXPECT_EQ(only(source).cause, Cause::kUnknown);
}

/// NCCL's calls to its own proxy thread use such a connection.
TEST(SlowLink, AConnectionOfARankWithItselfIsNone) {
  MemorySource source;
  fill_slow(source, [](int, int64_t, TcpSample&, TcpSample&) {});
  for (const uint64_t cookie : {7, 8}) {
    Connection row{.node_id = node_of_rank(2), .cookie = cookie, .pid = 12, .family = 2};
    const Endpoint dials{"10.77.0.3", 40'001};
    const Endpoint accepts{"10.77.0.3", 40'002};
    row.source = cookie == 7 ? dials : accepts;
    row.destination = cookie == 7 ? accepts : dials;
    row.opened_ns = kOriginNs;
    row.thread_name = "NCCL Progress 0";
    source.accept(row);
  }
  for (int64_t at = 0; at < kSteps * 20; ++at) {
    TcpSample sample = sample_of(2, 7, kOriginNs + at * 50 * kNsPerMs);
    sample.bytes_acked = static_cast<uint64_t>(at + 1) * 10'000;
    sample.busy_ns = static_cast<uint64_t>(at) * 50 * kNsPerMs;
    source.accept(sample);
  }
  EXPECT_EQ(only(source).cause, Cause::kUnknown);
}

TEST(SlowReceiver, UnreadDataAreEnough) {
  for (const bool held_up : {false, true}) {
    MemorySource source;
    fill_slow(source, [&](int rank, int64_t at, TcpSample& sender, TcpSample& receiver) {
      receiver.unread_bytes = rank == 2 || at % 3 == 0 ? 60'000 : 0;
      if (held_up && rank == 2) {  // it can't forward data, so it need not read
        sender.busy_ns = static_cast<uint64_t>(at) * 50 * kNsPerMs;
      }
    });
    const Finding finding = only(source);
    EXPECT_EQ(finding.cause, held_up ? Cause::kSlowLink : Cause::kSlowReceiver) << finding.summary;
    EXPECT_EQ(finding.culprit.has_value(), !held_up);
  }
}

/// Samples catch the other ranks in the bursts that the slow one forwards: all have unread data in most samples, the
/// slow one more of it.
TEST(SlowReceiver, StandsOutByWhatLiesUnreadToo) {
  for (const uint32_t backlog : {200'000U, 70'000U}) {
    MemorySource source;
    fill_slow(source, [&](int rank, int64_t at, TcpSample&, TcpSample& receiver) {
      receiver.unread_bytes = rank == 2 ? backlog : at % 4 != 0 ? 60'000 : 0;
    });
    const Finding finding = only(source);
    EXPECT_EQ(finding.cause, backlog > 100'000 ? Cause::kSlowReceiver : Cause::kUnknown) << finding.summary;
    EXPECT_EQ(finding.culprit.has_value(), backlog > 100'000) << finding.summary;
  }
}

TEST(SlowReceiver, WhoSeemsSlowNowAndThenBesideASlowOneIsNot) {
  MemorySource source;
  fill_slow(source, [&](int rank, int64_t at, TcpSample&, TcpSample& receiver) {
    const int slow = at >= (kSteps - 8) * 20 ? 3 : 2;
    receiver.unread_bytes = rank == slow || at % 3 == 0 ? 60'000 : 0;
  });
  expect_culprit(only(source), Cause::kSlowReceiver, 2);
}

TEST(SlowReceiver, ARankThatCouldNotRunIsNoSlowReader) {
  MemorySource source;
  fill_slow(source, [&](int rank, int64_t at, TcpSample&, TcpSample& receiver) {
    receiver.unread_bytes = rank == 2 || at % 3 == 0 ? 60'000 : 0;
  });
  for (int64_t step = 0; step < kSteps; ++step) {
    WaitSpan ready{.node_id = 3, .timestamp_ns = kOriginNs + step * kNsPerSecond, .window_ns = 400 * kNsPerMs};
    ready.waited_ns = 150 * kNsPerMs;
    ready.kind = WaitKind::kRunnable;
    ready.pid = ready.tid = 12;
    source.accept(ready);
  }
  EXPECT_NE(only(source).cause, Cause::kSlowReceiver);
}

TEST(SlowReceiver, TheLastOfAChainOfClosedWindowsIsNamed) {
  MemorySource source;
  fill_slow(source, [](int rank, int64_t at, TcpSample& sender, TcpSample& receiver) {
    if (rank == 0 || rank == 1) {  // 0 waits for 1, which waits for 2
      sender.busy_ns = sender.receiver_limited_ns = static_cast<uint64_t>(at) * 50 * kNsPerMs;
    }
    receiver.unread_bytes = rank == 1 || rank == 2 ? 60'000 : 0;
  });
  const Finding finding = only(source);
  expect_culprit(finding, Cause::kSlowReceiver, 2);
  EXPECT_EQ(finding.link->src_rank, 1);
  expect_golden_text("slow_receiver", finding);
}

}  // namespace
}  // namespace stalltrace::analysis
