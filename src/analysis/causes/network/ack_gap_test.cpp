// SPDX-License-Identifier: Apache-2.0
// Links without acknowledgements: partitions and MTU black holes, from samples and events of a small job that hangs.
#include <gtest/gtest.h>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/network_job.h"
#include "analysis/testing/subset.h"
#include "analysis/thresholds/network.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

TEST(Partition, ASilentLinkThatLosesSmallSegmentsTooIsNamed) {
  for (const bool alive : {true, false}) {
    MemorySource source;
    fill_silence(source, {1}, alive ? kMss : 168, alive ? KeepAlive::kLost : KeepAlive::kNone);
    const Finding finding = only(source);
    expect_link(finding, Cause::kPartition, 1, 2);
    EXPECT_GT(finding.confidence, 0.9);
    EXPECT_EQ(finding.severity, Severity::kCritical) << finding.summary;
    EXPECT_FALSE(finding.culprit.has_value());
    if (alive) {
      expect_golden_text("partition", finding);
    }
  }
}

TEST(Partition, WithoutSmallSegmentsTheLinkIsReportedAndTheCauseIsNotKnown) {
  for (const bool launched : {true, false}) {
    MemorySource source;
    fill_silence(source, {1}, kMss, KeepAlive::kNone, 1'000'000, -1, launched);
    const Finding finding = only(source);
    expect_link(finding, Cause::kUnknown, 1, 2);
    EXPECT_EQ(finding.severity, Severity::kCritical) << "busy devices do not keep segments from being acknowledged";
    EXPECT_EQ(count_of_kind(finding, "missing"), 1);
    expect_golden_text("unknown: partition or MTU black hole", finding);
  }
}

TEST(Partition, OneEndAloneWithoutSmallSegmentsShowsNeitherCauseNorDirection) {
  MemorySource source;
  fill_silence(source, {1}, kMss, KeepAlive::kNone);
  MemorySource one_end = recorded_on(nodes_of({1}), source);
  const Finding finding = only(one_end);
  EXPECT_EQ(finding.cause, Cause::kUnknown) << finding.summary;
  EXPECT_EQ(count_of_kind(finding, "missing"), 1);
  EXPECT_EQ(count_of_kind(finding, kDirectionNotKnown), 1);
}

TEST(Partition, TheEndOfAllSilentLinksIsTheCulprit) {
  MemorySource source;
  fill_silence(source, {1, 2}, kMss, KeepAlive::kLost);
  expect_culprit(only(source), Cause::kPartition, 2);
}

TEST(Partition, WhatPassesAfterTheLastFailedRepeatProvesNothing) {
  MemorySource source;
  fill_silence(source, {1}, kMss, KeepAlive::kNone);
  for (int64_t second = 6; second < 20; ++second) {
    TcpSample alive = sample_of(1, kAlive, kLastArrivalNs + second * kNsPerSecond);
    alive.bytes_acked += static_cast<uint64_t>(second) * 64;
    source.accept(alive);
  }
  EXPECT_EQ(only(source).cause, Cause::kUnknown);
}

/// The last retransmission arrives because the path has healed: the receiver's count proves nothing about the time
/// before.
TEST(Partition, TheRepeatThatHealsDoesNotTurnTheDirection) {
  MemorySource source;
  fill_silence(source, {1}, kMss, KeepAlive::kLost);
  TcpEvent last = event_of(1, TcpEventKind::kRetransmit, kEndNs - 100 * kNsPerMs);
  last.len = kMss;
  source.accept(last);
  TcpSample received = sample_of(2, kIn, kEndNs - 200 * kNsPerMs);
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

TEST(Partition, ASilentKeepAliveReportsTheNodeFromTheLink) {
  MemorySource source;
  fill_silence(source, {1}, kMss, KeepAlive::kLost);
  for (int64_t number = 1; number < 20; ++number) {
    TcpSample alive = sample_of(2, kAlive, kLastArrivalNs + number * kNsPerSecond);
    alive.unacked_bytes = 64;
    alive.backoff = 4;
    source.accept(alive);
  }
  expect_culprit(only(source), Cause::kPartition, 2);
}

TEST(Partition, LostAcknowledgementsAreTheOtherDirection) {
  // An unchanged sample is not written: the arrival may be reported only before the first retransmission, and before
  // the sender's first sample.
  for (const int64_t reported_ns : {kNsPerMs, 150 * kNsPerMs, 2 * kNsPerSecond}) {
    for (const uint64_t arrived : {48, 100'000}) {
      MemorySource source;
      fill_silence(source, {1}, kMss, KeepAlive::kNone);
      TcpSample received = sample_of(2, kIn, kLastArrivalNs + reported_ns);
      received.bytes_received = 1'000'000 + arrived;
      source.accept(received);
      expect_link(only(source), Cause::kPartition, 2, 1);
    }
  }
}

/// Nothing that rank 1 sends is acknowledged: its data are lost on the way, or all that rank 2 sends.
TEST(Partition, OneEndAloneDoesNotShowTheDirection) {
  for (const bool receives : {false, true}) {
    MemorySource source;
    fill_silence(source, {1}, 168, KeepAlive::kNone);
    for (int64_t second = 1; receives && second < 5; ++second) {
      TcpSample sample = sample_of(1, kOut, kLastArrivalNs + second * kNsPerSecond);
      sample.bytes_acked = 1'000'000;
      sample.unacked_bytes = 100'000;
      sample.backoff = 3;
      sample.bytes_received = static_cast<uint64_t>(second) * 1000;
      source.accept(sample);
    }
    MemorySource one_end = recorded_on(nodes_of({1}), source);
    const Finding finding = only(one_end);
    EXPECT_EQ(finding.cause, Cause::kPartition) << finding.summary;
    EXPECT_FALSE(finding.culprit.has_value());
    ASSERT_TRUE(finding.link.has_value());
    EXPECT_EQ(finding.link->src_rank, 1);
    EXPECT_EQ(count_of_kind(finding, kDirectionNotKnown), receives ? 0 : 1);
    EXPECT_EQ(finding.confidence <= kOneEndConfidence, !receives);
    if (!receives) {
      expect_golden_text("partition seen from one end", finding);
    }
  }
}

TEST(MtuBlackhole, OnlyFullSegmentsRepeatWhileSmallOnesPass) {
  MemorySource source;
  fill_silence(source, {1}, kMss, KeepAlive::kPasses);
  const Finding finding = only(source);
  expect_link(finding, Cause::kMtuBlackhole, 1, 2);
  expect_golden_text("mtu_blackhole", finding);
}

/// The sender's samples while its timer doubles: of 8 segments in flight, all except `reported` count as lost.
void report_out_of_order(MemorySource& source, uint32_t reported, uint32_t unacked = 7 * kMss + 100) {
  for (int64_t second = 1; second < 5; ++second) {
    TcpSample sample = sample_of(1, kOut, kLastArrivalNs + second * kNsPerSecond);
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

/// A hole from loss before the link failed: full segments have passed it.
TEST(MtuBlackhole, FullSegmentsBehindAHoleSpeakAgainstIt) {
  MemorySource source;
  fill_silence(source, {1}, kMss, KeepAlive::kNone);
  report_out_of_order(source, 3, 8 * kMss);
  EXPECT_EQ(only(source).cause, Cause::kUnknown);
}

/// The probe of the last segment is a retransmission as well: it arrives.
TEST(MtuBlackhole, TheProbeOfAShortLastSegmentIsNoPartition) {
  MemorySource source;
  fill_silence(source, {1}, kMss, KeepAlive::kNone);
  report_out_of_order(source, 1);
  TcpEvent probe = event_of(1, TcpEventKind::kRetransmit, kLastArrivalNs + 150 * kNsPerMs);
  probe.len = 100;
  source.accept(probe);
  EXPECT_EQ(only(source).cause, Cause::kMtuBlackhole);
}

/// The usual case: the handshake passes, the first large message never does.
TEST(MtuBlackhole, AConnectionThatNeverCarriedALargeSegmentHasMetOne) {
  for (const uint64_t acked : {100U, 5'000U, 1U}) {
    MemorySource source;
    fill_silence(source, {1}, kMss, KeepAlive::kNone, acked);
    EXPECT_EQ(only(source).cause, acked == 100 ? Cause::kMtuBlackhole : Cause::kUnknown) << acked;
  }
}

TEST(MtuBlackhole, WhereSmallSegmentsAreLostDuringItItIsAPartition) {
  MemorySource source;
  fill_silence(source, {1}, kMss, KeepAlive::kLost, 100);
  EXPECT_EQ(only(source).cause, Cause::kPartition);
}

/// The path heals after 8 s; until 17 s TCP, whose timer has doubled, repairs the loss, with pauses longer than the
/// silence.
TEST(MtuBlackhole, CostsUntilTcpHasRepairedWhatItLeft) {
  MemorySource source;
  fill_silence(source, {}, kMss, KeepAlive::kNone, 0, 1);
  const auto sample = [&](int64_t after_ns, uint64_t acked, uint8_t backoff, uint32_t lost) {
    TcpSample row = sample_of(1, kOut, kLastArrivalNs + after_ns);
    row.bytes_acked = 1'000'000 + acked;
    row.unacked_bytes = lost > 0 ? 7 * kMss + 100 : 0;
    row.backoff = backoff;
    row.packets_out = lost > 0 ? 8 : 0;
    row.lost_out = lost;
    row.ca_state = lost > 0 ? 4 : 0;
    source.accept(row);
  };
  const auto state = [&](int64_t after_ns, int32_t value) {
    TcpEvent event = event_of(1, TcpEventKind::kCongestionState, kLastArrivalNs + after_ns);
    event.state = value;
    source.accept(event);
  };
  state(300 * kNsPerMs, 4);
  for (int repeat = 0; repeat < 5; ++repeat) {
    TcpEvent segment = event_of(1, TcpEventKind::kRetransmit, kLastArrivalNs + (300 << repeat) * kNsPerMs);
    segment.len = kMss;
    source.accept(segment);
  }
  for (int64_t second = 1; second < 8; ++second) {
    sample(second * kNsPerSecond, 0, 3, 7);
  }
  sample(8 * kNsPerSecond, kMss, 1, 6);
  sample(17 * kNsPerSecond, 8 * kMss, 0, 0);
  state(17 * kNsPerSecond, 0);
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kMtuBlackhole) << finding.summary;
  EXPECT_GE(finding.confidence, 0.75);
}

TEST(MtuBlackhole, RepeatsOfSmallSegmentsAreNone) {
  MemorySource source;
  fill_silence(source, {1}, 168, KeepAlive::kPasses);
  EXPECT_EQ(only(source).cause, Cause::kPartition);
}

/// As a keep-alive, it shows that the path may be broken, and not that this call waits for it.
TEST(Partition, ASilentConnectionOfAnotherCommunicatorIsNoProof) {
  constexpr CommHash kOther = 78;
  for (const CommHash carried : {kHash, kOther}) {
    MemorySource source;
    fill_silence(source, {1}, 168, KeepAlive::kNone);
    add_communicator(source, kOther);
    attribute(source, 1, kOut, carried);
    const Finding finding = only(source);
    EXPECT_EQ(finding.cause, carried == kHash ? Cause::kPartition : Cause::kUnknown) << finding.summary;
    EXPECT_EQ(finding.link.has_value(), carried == kHash);
  }
}

}  // namespace
}  // namespace stalltrace::analysis
