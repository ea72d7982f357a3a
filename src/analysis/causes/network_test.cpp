// SPDX-License-Identifier: Apache-2.0
// Causes on the network, from the samples and events of a small job whose last call hangs, or whose calls are slow.
#include <gtest/gtest.h>

#include <set>

#include "analysis/testing/small_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

constexpr int64_t kHangNsTold = 20 * kNsPerSecond;
constexpr int64_t kEndNs = kLastArrivalNs + kHangNsTold;
constexpr uint32_t kMss = 1448;

/// The ring's connections: cookie 1 of each rank sends to the next rank, cookie 2 receives from the one before; cookies
/// 3 and 4 are a keep-alive beside them. Rank 2 closes its end of the connection from rank 1 at `closed_ns`.
void connect(MemorySource& source, std::optional<int64_t> closed_ns = std::nullopt) {
  for (int rank = 0; rank < kRanks; ++rank) {
    const int next = (rank + 1) % kRanks;
    const int previous = (rank + kRanks - 1) % kRanks;
    const auto end = [&](uint64_t cookie, int peer, bool dials, uint16_t port, const char* thread) {
      Connection row{.node_id = static_cast<NodeId>(1 + rank), .cookie = cookie, .pid = 10 + rank, .family = 2};
      const auto address = [](int who) { return "10.77.0." + std::to_string(who + 1); };
      const auto client = static_cast<uint16_t>(port + 10'000 + (dials ? rank : peer));
      row.source = {address(rank), dials ? client : port};
      row.destination = {address(peer), dials ? port : client};
      row.opened_ns = kOriginNs;
      row.thread_name = thread;
      row.closed_ns = rank == 2 && cookie == 2 ? closed_ns : std::nullopt;
      source.accept(row);
    };
    end(1, next, true, 50'000, "NCCL Progress 0");
    end(2, previous, false, 50'000, "NCCL Progress 0");
    end(3, next, true, 40'000, "NCCL RAS");
    end(4, previous, false, 40'000, "NCCL RAS");
  }
}

TcpSample sample_of(int rank, uint64_t cookie, int64_t time_ns) {
  TcpSample sample{.node_id = static_cast<NodeId>(1 + rank), .timestamp_ns = time_ns, .cookie = cookie};
  sample.pid = 10 + rank;
  sample.mss = kMss;
  sample.bytes_acked = 1'000'000;
  return sample;
}

TcpEvent event_of(int rank, TcpEventKind kind, int64_t time_ns) {
  static uint64_t number = 0;
  TcpEvent event{.event_id = make_event_id(static_cast<NodeId>(1 + rank), 5'000'000 + ++number)};
  event.node_id = static_cast<NodeId>(1 + rank);
  event.timestamp_ns = time_ns;
  event.event = kind;
  event.pid = 10 + rank;
  event.cookie = 1;
  return event;
}

/// All ranks inside the last call until kEndNs.
Ending hang() {
  Ending ending;
  ending.call = [](int, int64_t step, Collective& call) {
    if (step == kSteps - 1) {
      leave_open(call);
    }
    return true;
  };
  ending.node = [](int, Node& node) { node.ended_ns = kEndNs; };
  return ending;
}

enum class KeepAlive { kNone, kPasses, kLost };

/// Rank `silent` repeats into silence from the last call on, its timer doubling; repeats are of `len` bytes, `acked`
/// were acknowledged before.
void fill_silence(MemorySource& source, const std::set<int>& silent, uint32_t len, KeepAlive keep_alive,
                  uint64_t acked = 1'000'000) {
  fill(source, hang());
  connect(source);
  uint8_t doubled = 0;
  for (int64_t time_ns = kLastArrivalNs + 100 * kNsPerMs; time_ns < kEndNs; time_ns += 500 * kNsPerMs) {
    doubled = std::min<uint8_t>(5, doubled + 1);
    for (int rank = 0; rank < kRanks; ++rank) {
      TcpSample sample = sample_of(rank, 1, time_ns);
      TcpSample alive = sample_of(rank, 3, time_ns);
      if (silent.contains(rank)) {
        sample.bytes_acked = acked;
        sample.unacked_bytes = 100'000;
        sample.backoff = doubled;
        sample.ca_state = 4;
        if (keep_alive == KeepAlive::kPasses) {
          alive.bytes_acked += static_cast<uint64_t>(time_ns - kLastArrivalNs) / kNsPerSecond * 64;
        } else if (keep_alive == KeepAlive::kLost) {
          alive.unacked_bytes = 64;
          alive.backoff = doubled;
        }
      }
      source.accept(sample);
      if (keep_alive != KeepAlive::kNone) {
        source.accept(alive);
      }
    }
  }
  for (const int rank : silent) {
    TcpEvent state = event_of(rank, TcpEventKind::kCongestionState, kLastArrivalNs + 300 * kNsPerMs);
    state.state = 4;
    source.accept(state);
    for (int repeat = 0; repeat < 5; ++repeat) {
      TcpEvent segment = event_of(rank, TcpEventKind::kRetransmit, kLastArrivalNs + (300 << repeat) * kNsPerMs);
      segment.len = len;
      source.accept(segment);
    }
  }
}

Finding only(MemorySource& source) {
  const Report report = report_of(source);
  EXPECT_EQ(report.findings.size(), 1U) << told(report);
  return report.findings.empty() ? Finding{} : report.findings[0];
}

TEST(Partition, ASilentLinkThatLosesSmallSegmentsTooIsNamed) {
  for (const bool alive : {true, false}) {
    MemorySource source;
    fill_silence(source, {1}, alive ? kMss : 168, alive ? KeepAlive::kLost : KeepAlive::kNone);
    const Finding finding = only(source);
    EXPECT_EQ(finding.cause, Cause::kPartition) << finding.summary;
    EXPECT_GT(finding.confidence, 0.9);
    EXPECT_FALSE(finding.culprit.has_value());
    ASSERT_TRUE(finding.link.has_value());
    EXPECT_EQ(finding.link->src_rank, 1);
    EXPECT_EQ(finding.link->dst_rank, 2);
  }
}

TEST(Partition, WithoutSmallSegmentsTheLinkIsToldAndTheCauseIsNotKnown) {
  MemorySource source;
  fill_silence(source, {1}, kMss, KeepAlive::kNone);
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kUnknown) << finding.summary;
  ASSERT_TRUE(finding.link.has_value());
  EXPECT_EQ(finding.link->src_rank, 1);
  EXPECT_EQ(finding.link->dst_rank, 2);
  EXPECT_NE(finding.remedy.find("ping from 10.77.0.2 to 10.77.0.3"), std::string::npos) << finding.remedy;
}

TEST(Partition, TheEndOfAllSilentLinksIsTheCulprit) {
  MemorySource source;
  fill_silence(source, {1, 2}, kMss, KeepAlive::kLost);
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kPartition) << finding.summary;
  ASSERT_TRUE(finding.culprit.has_value());
  EXPECT_EQ(finding.culprit->rank, 2);
}

TEST(Partition, WhatPassesAfterTheLastFailedRepeatProvesNothing) {
  MemorySource source;
  fill_silence(source, {1}, kMss, KeepAlive::kNone);
  for (int64_t second = 6; second < 20; ++second) {
    TcpSample alive = sample_of(1, 3, kLastArrivalNs + second * kNsPerSecond);
    alive.bytes_acked += static_cast<uint64_t>(second) * 64;
    source.accept(alive);
  }
  EXPECT_EQ(only(source).cause, Cause::kUnknown);
}

/// The last repeat arrives, since the path has healed: the receiver's count says nothing about the time before.
TEST(Partition, TheRepeatThatHealsDoesNotTurnTheDirection) {
  MemorySource source;
  fill_silence(source, {1}, kMss, KeepAlive::kLost);
  TcpEvent last = event_of(1, TcpEventKind::kRetransmit, kEndNs - 100 * kNsPerMs);
  last.len = kMss;
  source.accept(last);
  TcpSample received = sample_of(2, 2, kEndNs - 200 * kNsPerMs);
  received.bytes_received = 1'100'000;
  source.accept(received);
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kPartition) << finding.summary;
  ASSERT_TRUE(finding.link.has_value());
  EXPECT_EQ(finding.link->src_rank, 1);
}

TEST(Partition, ASilenceAmongOtherTimeoutsIsLoss) {
  MemorySource source;
  for (int64_t at_ns = kLastArrivalNs - 400 * kNsPerMs; at_ns < kLastArrivalNs; at_ns += 100 * kNsPerMs) {
    for (const int state : {4, 0}) {
      TcpEvent event = event_of(1, TcpEventKind::kCongestionState, at_ns + (state == 0 ? 10 * kNsPerMs : 0));
      event.state = state;
      source.accept(event);
    }
  }
  fill_silence(source, {1}, kMss, KeepAlive::kLost);
  EXPECT_EQ(only(source).cause, Cause::kPacketLoss);
}

TEST(Partition, ASilentKeepAliveTellsTheNodeFromTheLink) {
  MemorySource source;
  fill_silence(source, {1}, kMss, KeepAlive::kLost);
  for (int64_t number = 1; number < 20; ++number) {
    TcpSample alive = sample_of(2, 3, kLastArrivalNs + number * kNsPerSecond);
    alive.unacked_bytes = 64;
    alive.backoff = 4;
    source.accept(alive);
  }
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kPartition) << finding.summary;
  ASSERT_TRUE(finding.culprit.has_value());
  EXPECT_EQ(finding.culprit->rank, 2);
}

TEST(Partition, LostAcknowledgementsAreTheOtherDirection) {
  // An unchanged sample is not written: the arrival may be told before the first repeat alone.
  for (const int64_t told_ns : {150 * kNsPerMs, 2 * kNsPerSecond}) {
    MemorySource source;
    fill_silence(source, {1}, kMss, KeepAlive::kNone);
    TcpSample received = sample_of(2, 2, kLastArrivalNs + told_ns);
    received.bytes_received = 1'100'000;
    source.accept(received);
    const Finding finding = only(source);
    EXPECT_EQ(finding.cause, Cause::kPartition) << finding.summary;
    ASSERT_TRUE(finding.link.has_value());
    EXPECT_EQ(finding.link->src_rank, 2);
    EXPECT_EQ(finding.link->dst_rank, 1);
  }
}

TEST(MtuBlackhole, OnlyFullSegmentsRepeatWhileSmallOnesPass) {
  MemorySource source;
  fill_silence(source, {1}, kMss, KeepAlive::kPasses);
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kMtuBlackhole) << finding.summary;
  ASSERT_TRUE(finding.link.has_value());
  EXPECT_EQ(finding.link->src_rank, 1);
  EXPECT_EQ(finding.link->dst_rank, 2);
}

/// The sender's samples while its timer doubles: of 8 segments under way, all but `reported` count as lost.
void report_out_of_order(MemorySource& source, uint32_t reported, uint32_t unacked = 7 * kMss + 100) {
  for (int64_t second = 1; second < 5; ++second) {
    TcpSample sample = sample_of(1, 1, kLastArrivalNs + second * kNsPerSecond);
    sample.unacked_bytes = unacked;
    sample.backoff = 3;
    sample.ca_state = 4;
    sample.packets_out = 8;
    sample.lost_out = 8 - reported;
    source.accept(sample);
  }
}

TEST(MtuBlackhole, TheShortLastSegmentPassesBehindTheLargeOnes) {
  for (const uint32_t reported : {1U, 0U}) {
    MemorySource source;
    fill_silence(source, {1}, kMss, KeepAlive::kNone);
    report_out_of_order(source, reported);
    const Finding finding = only(source);
    EXPECT_EQ(finding.cause, reported > 0 ? Cause::kMtuBlackhole : Cause::kUnknown) << finding.summary;
  }
}

/// A hole that loss had left before the link went: what has passed it are full segments.
TEST(MtuBlackhole, FullSegmentsBehindAHoleSpeakAgainstIt) {
  MemorySource source;
  fill_silence(source, {1}, kMss, KeepAlive::kNone);
  report_out_of_order(source, 3, 8 * kMss);
  EXPECT_EQ(only(source).cause, Cause::kUnknown);
}

/// The probe of the last segment is a repeat, too: it arrives.
TEST(MtuBlackhole, TheProbeOfAShortLastSegmentIsNoPartition) {
  MemorySource source;
  fill_silence(source, {1}, kMss, KeepAlive::kNone);
  report_out_of_order(source, 1);
  TcpEvent probe = event_of(1, TcpEventKind::kRetransmit, kLastArrivalNs + 150 * kNsPerMs);
  probe.len = 100;
  source.accept(probe);
  EXPECT_EQ(only(source).cause, Cause::kMtuBlackhole);
}

/// The usual one: the handshake passes, the first large message never does.
TEST(MtuBlackhole, AConnectionThatNeverCarriedALargeSegmentHasMetOne) {
  for (const uint64_t acked : {100U, 5'000U, 1U}) {
    MemorySource source;
    fill_silence(source, {1}, kMss, KeepAlive::kNone, acked);
    EXPECT_EQ(only(source).cause, acked == 100 ? Cause::kMtuBlackhole : Cause::kUnknown) << acked;
  }
}

TEST(MtuBlackhole, WhereSmallSegmentsAreLostMeanwhileItIsAPartition) {
  MemorySource source;
  fill_silence(source, {1}, kMss, KeepAlive::kLost, 100);
  EXPECT_EQ(only(source).cause, Cause::kPartition);
}

TEST(MtuBlackhole, RepeatsOfSmallSegmentsAreNone) {
  MemorySource source;
  fill_silence(source, {1}, 168, KeepAlive::kPasses);
  EXPECT_EQ(only(source).cause, Cause::kPartition);
}

TEST(ConnectionReset, TheFirstResetBeforeAnyDeathIsTheCause) {
  for (const bool death_first : {false, true}) {
    MemorySource source;
    Ending ending = hang();
    ending.process = [&](int rank, Process& process) {
      if (rank == 1) {
        process.exit_ns = kLastArrivalNs + (death_first ? 10 * kNsPerMs : 10 * kNsPerSecond);
        process.exit_code = 1;
      }
    };
    fill(source, ending);
    connect(source);
    source.accept(event_of(1, TcpEventKind::kResetReceived, kLastArrivalNs + 30 * kNsPerMs));
    const Finding finding = only(source);
    EXPECT_EQ(finding.cause, death_first ? Cause::kDeadRank : Cause::kConnectionReset) << finding.summary;
    if (!death_first) {
      ASSERT_TRUE(finding.link.has_value());
      EXPECT_EQ(finding.link->src_rank, 1);
      EXPECT_EQ(finding.link->dst_rank, 2);
    }
  }
}

/// All ranks fail within 8 ms of a reset, on one host: no hang to be seen. Unless the other end had closed, it ended
/// them.
TEST(ConnectionReset, MayEndTheJobAtOnce) {
  for (const bool closed_by_peer : {false, true}) {
    MemorySource source;
    Ending ending;
    ending.call = [](int, int64_t step, Collective& call) {
      if (step == kSteps - 1) {
        leave_open(call);
      }
      return true;
    };
    ending.process = [](int rank, Process& process) {
      process.exit_ns = kLastArrivalNs + (32 + rank) * kNsPerMs;
      process.exit_code = 1;
    };
    fill(source, ending);
    connect(source, closed_by_peer ? std::optional(kLastArrivalNs + 29 * kNsPerMs) : std::nullopt);
    source.accept(event_of(1, TcpEventKind::kResetReceived, kLastArrivalNs + 30 * kNsPerMs));
    const Report report = report_of(source);
    if (closed_by_peer) {
      for (const Finding& finding : report.findings) {
        EXPECT_NE(finding.cause, Cause::kConnectionReset) << finding.summary;
      }
      continue;
    }
    ASSERT_EQ(report.findings.size(), 1U) << told(report);
    EXPECT_EQ(report.findings[0].cause, Cause::kConnectionReset) << told(report);
    ASSERT_TRUE(report.findings[0].link.has_value());
    EXPECT_EQ(report.findings[0].link->src_rank, 1);
  }
}

/// A job that ends at once for a reason that nobody saw is no finding of another cause.
TEST(ConnectionReset, WithoutOneAnEndAtOnceIsNotTold) {
  MemorySource source;
  Ending ending;
  ending.call = [](int, int64_t step, Collective& call) {
    if (step == kSteps - 1) {
      leave_open(call);
    }
    return true;
  };
  ending.process = [](int, Process& process) {
    process.exit_ns = kLastArrivalNs + 700 * kNsPerMs;
    process.exit_code = 1;
  };
  fill(source, ending);
  connect(source);
  for (int repeat = 0; repeat < 3; ++repeat) {
    TcpEvent state = event_of(1, TcpEventKind::kCongestionState, kLastArrivalNs + (10 + repeat) * kNsPerMs);
    state.state = repeat % 2 == 0 ? 4 : 0;
    source.accept(state);
  }
  const Report report = report_of(source);
  EXPECT_TRUE(report.findings.empty()) << told(report);
}

/// What a rank resets itself when it closes is told by its peer's end, too; it ends 200 ms later.
TEST(ConnectionReset, WhatAFailingRankClosesIsNone) {
  MemorySource source;
  Ending ending = hang();
  ending.process = [](int rank, Process& process) {
    if (rank == 2) {
      process.exit_ns = kLastArrivalNs + 230 * kNsPerMs;
      process.exit_code = 1;
    }
  };
  fill(source, ending);
  connect(source, kLastArrivalNs + 29 * kNsPerMs);
  TcpEvent sent = event_of(2, TcpEventKind::kResetSent, kLastArrivalNs + 29 * kNsPerMs + 5);
  sent.cookie = 2;
  source.accept(sent);
  source.accept(event_of(1, TcpEventKind::kResetReceived, kLastArrivalNs + 30 * kNsPerMs));
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kDeadRank) << finding.summary;
  EXPECT_EQ(finding.culprit->rank, 2);
}

/// The job ends before a transfer takes its usual time: a finding without lost time.
TEST(ConnectionReset, MayEndTheJobSoonerThanATransferTakes) {
  MemorySource source;
  Ending ending = hang();
  ending.call = [inner = ending.call](int rank, int64_t step, Collective& call) {
    call.duration_ns = 40 * kNsPerMs;
    return inner(rank, step, call);
  };
  ending.process = [](int rank, Process& process) {
    process.exit_ns = kLastArrivalNs + (12 + rank) * kNsPerMs;
    process.exit_code = 1;
  };
  fill(source, ending);
  connect(source);
  source.accept(event_of(1, TcpEventKind::kResetReceived, kLastArrivalNs + 10 * kNsPerMs));
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kConnectionReset) << finding.summary;
  EXPECT_GT(finding.window.to_ns, finding.window.from_ns);
}

/// A display that the library asks for when it starts, refused: no connection of the job broke.
TEST(ConnectionReset, ARefusedAttemptIsNone) {
  for (const bool refused : {false, true}) {
    MemorySource source;
    fill(source, hang());
    connect(source);
    source.accept(event_of(1, TcpEventKind::kResetReceived, kLastArrivalNs + 30 * kNsPerMs));
    if (refused) {
      TcpEvent failed = event_of(1, TcpEventKind::kConnectFailed, kLastArrivalNs + 30 * kNsPerMs);
      failed.state = 111;
      source.accept(failed);
    }
    EXPECT_EQ(only(source).cause, refused ? Cause::kUnknown : Cause::kConnectionReset);
  }
}

/// Every call from the middle on takes 400 ms; `shape` writes what the flow of each rank does meanwhile.
void fill_slow(MemorySource& source,
               const std::function<void(int rank, int64_t step, TcpSample& sender, TcpSample& receiver)>& shape) {
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    call.timestamp_ns = kOriginNs + step * kNsPerSecond + rank * 100 * kNsPerUs;
    call.duration_ns = step < kSteps / 2 ? 50 * kNsPerMs : 400 * kNsPerMs;
    return true;
  };
  fill(source, ending);
  connect(source);
  for (int64_t at = 0; at < kSteps * 20; ++at) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const int64_t time_ns = kOriginNs + at * 50 * kNsPerMs;
      TcpSample sender = sample_of(rank, 1, time_ns);
      TcpSample receiver = sample_of(rank, 2, time_ns);
      sender.bytes_acked = static_cast<uint64_t>(at + 1) * 100'000;
      sender.busy_ns = static_cast<uint64_t>(at) * 2 * kNsPerMs;
      shape(rank, at, sender, receiver);
      source.accept(sender);
      source.accept(receiver);
    }
  }
}

TEST(SlowLink, TheBusyLinkFarBelowTheOthersIsNamed) {
  MemorySource source;
  fill_slow(source, [](int rank, int64_t at, TcpSample& sender, TcpSample&) {
    sender.busy_ns = rank == 2 ? static_cast<uint64_t>(at) * 50 * kNsPerMs : sender.busy_ns;
  });
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kSlowLink) << finding.summary;
  EXPECT_FALSE(finding.culprit.has_value());
  ASSERT_TRUE(finding.link.has_value());
  EXPECT_EQ(finding.link->src_rank, 2);
  EXPECT_EQ(finding.link->dst_rank, 3);
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

TEST(SlowReceiver, UnreadDataAreEnough) {
  for (const bool held_up : {false, true}) {
    MemorySource source;
    fill_slow(source, [&](int rank, int64_t at, TcpSample& sender, TcpSample& receiver) {
      receiver.unread_bytes = rank == 2 || at % 3 == 0 ? 60'000 : 0;
      if (held_up && rank == 2) {  // it cannot send on, so that it need not read
        sender.busy_ns = static_cast<uint64_t>(at) * 50 * kNsPerMs;
      }
    });
    const Finding finding = only(source);
    EXPECT_EQ(finding.cause, held_up ? Cause::kSlowLink : Cause::kSlowReceiver) << finding.summary;
    EXPECT_EQ(finding.culprit.has_value(), !held_up);
  }
}

/// Samples catch the others in the bursts that the slow one lets through: at all of them data lie unread in most, at
/// the slow one more of them.
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
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kSlowReceiver);
  EXPECT_EQ(finding.culprit->rank, 2);
}

TEST(SlowReceiver, WhoeverCouldNotRunIsNotSaidToReadSlowly) {
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
  EXPECT_EQ(finding.cause, Cause::kSlowReceiver) << finding.summary;
  ASSERT_TRUE(finding.culprit.has_value());
  EXPECT_EQ(finding.culprit->rank, 2);
  EXPECT_EQ(finding.link->src_rank, 1);
}

}  // namespace
}  // namespace stalltrace::analysis
