// SPDX-License-Identifier: Apache-2.0
// The evidence of a connection in one window, distinct from that in other windows.
#include "analysis/evidence/evidence.h"

#include <gtest/gtest.h>

#include "analysis/testing/slow_job.h"
#include "analysis/thresholds/bounds.h"
#include "analysis/thresholds/network.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

/// Rank 1 gets no acknowledgement from second 10 to 12, and again from 50 to 51, while its timer doubles.
TEST(Silence, IsThatOfTheWindow) {
  MemorySource source;
  fill(source, {});
  connect(source);
  const auto at = [](double seconds) { return kOriginNs + static_cast<int64_t>(seconds * kNsPerSecond); };
  const auto add = [&](double seconds, uint64_t acked, uint32_t unacked, uint8_t backoff) {
    TcpSample sample = sample_of(1, kOut, at(seconds));
    sample.bytes_acked = acked;
    sample.unacked_bytes = unacked;
    sample.backoff = backoff;
    source.accept(sample);
  };
  add(9, 1000, 0, 0);
  add(10, 1000, 500, 0);
  add(11, 1000, 500, 2);
  add(12, 1500, 0, 0);
  add(50, 1500, 500, 3);
  add(51, 2000, 0, 0);
  Cluster cluster = *Cluster::load(source);
  ASSERT_TRUE(Timeline::load(source, cluster));
  const Flows flows = *Flows::load(source, cluster);
  const EvidenceStore evidence = *EvidenceStore::load(source, cluster, flows, std::vector<Interval>{{at(0), at(60)}});
  FlowIndex flow = 0;
  while (evidence.samples(flow).empty()) {
    ++flow;
  }
  for (const auto& [from, to] : {std::pair(9.0, 13.0), std::pair(10.5, 10.8), std::pair(11.5, 40.0)}) {
    const AckGap silence = evidence.silence(flow, {at(from), at(to)});
    EXPECT_EQ(silence.backoff, 2) << from;
    EXPECT_EQ(silence.time.from_ns, at(10)) << from;
    EXPECT_EQ(silence.time.to_ns, at(12)) << from;
  }
  EXPECT_EQ(evidence.silence(flow, {at(20), at(40)}).backoff, 0);
  EXPECT_EQ(evidence.silence(flow, {at(20), at(40)}).time.length(), 0);
  EXPECT_EQ(evidence.silence(flow, {at(40), at(60)}).backoff, 3);
  EXPECT_EQ(evidence.silence(flow, {at(52), at(60)}).time.length(), 0);
}

/// The rows around a job that is slow from kSlowFrom on, and what the store makes of them.
struct Loaded {
  explicit Loaded(MemorySource& source, int64_t most_rows = kMaxEvidenceRows) : cluster(*Cluster::load(source)) {
    EXPECT_TRUE(Timeline::load(source, cluster));
    flows = *Flows::load(source, cluster);
    evidence.emplace(*EvidenceStore::load(source, cluster, flows,
                                          std::vector<Interval>{{kOriginNs, kOriginNs + kRecordedNs}}, most_rows));
  }
  [[nodiscard]] int64_t recovered_ns(int rank, uint64_t cookie) const {
    const FlowIndex flow = flows.find(node_of_rank(rank), cookie);
    return evidence->recovery_intervals(flow).total_ns();
  }

  Cluster cluster;
  Flows flows;
  std::optional<EvidenceStore> evidence;
};

TcpEvent state_of(int rank, uint64_t cookie, int64_t time_ns, int32_t state) {
  TcpEvent event = event_of(rank, TcpEventKind::kCongestionState, time_ns);
  event.cookie = cookie;
  event.state = state;
  return event;
}

TEST(Recovery, EndsWithItsConnection) {
  for (const bool closed : {true, false}) {
    MemorySource source;
    fill(source, {});
    connect(source, closed ? std::optional(kOriginNs + 2 * kNsPerSecond) : std::nullopt);
    source.accept(state_of(2, kIn, kOriginNs + kNsPerSecond, kCongestionLoss));
    const int64_t recovered_ns = Loaded(source).recovered_ns(2, kIn);
    EXPECT_EQ(recovered_ns, closed ? kNsPerSecond : kRecordedNs - kNsPerSecond) << "else with its agent";
  }
}

TEST(Recovery, EndsWhereASampleShowsThatItDid) {
  MemorySource source;
  fill(source, {});
  connect(source);
  source.accept(state_of(1, kOut, kOriginNs + kNsPerSecond, kCongestionRecovery));
  TcpSample recovering = sample_of(1, kOut, kOriginNs + 2 * kNsPerSecond);
  recovering.ca_state = kCongestionRecovery;
  source.accept(recovering);
  source.accept(sample_of(1, kOut, kOriginNs + 3 * kNsPerSecond));  // the event that ended it was lost
  source.accept(state_of(1, kOut, kOriginNs + 5 * kNsPerSecond, kCongestionRecovery));
  source.accept(state_of(1, kOut, kOriginNs + 6 * kNsPerSecond, 0));
  source.accept(sample_of(1, kOut, kOriginNs + 7 * kNsPerSecond));
  EXPECT_EQ(Loaded(source).recovered_ns(1, kOut), 3 * kNsPerSecond);
}

/// The processes go on with another connection; what was once lost on the old one explains nothing later.
TEST(Recovery, OfADeadConnectionExplainsNoLaterStall) {
  MemorySource source;
  fill(source, slow());
  connect(source, begin_of(5));
  source.accept(state_of(2, kIn, begin_of(4), kCongestionLoss));
  EXPECT_EQ(only(source).cause, Cause::kUnknown);
}

TEST(EvidenceRows, EachTableHasRoomOfItsOwnAndWhatItLacksIsReported) {
  MemorySource source;
  fill(source, {});
  connect(source);
  constexpr int64_t kRows = 600;
  for (int64_t i = 0; i < kRows; ++i) {
    source.accept(HostSample{node_of_rank(0), kOriginNs + i * kNsPerSecond, "net_rx_drops", "eth0", double(i)});
  }
  for (int64_t i = 0; i < 60; ++i) {
    PortCounter row{.node_id = node_of_rank(0), .timestamp_ns = kOriginNs + i * 10 * kNsPerSecond, .device = "mlx5_0"};
    row.port = 1;
    row.name = "symbol_error";
    row.value = i;
    source.accept(row);
  }
  const Loaded loaded(source, 100);
  EXPECT_EQ(loaded.evidence->host().port_rises(node_of_rank(0), {kOriginNs, kOriginNs + kRecordedNs}).size(), 1U);
  ASSERT_EQ(loaded.evidence->dropped_rows().size(), 1U);
  EXPECT_EQ(loaded.evidence->dropped_rows()[0].table, "host_sample");
  EXPECT_GE(loaded.evidence->dropped_rows()[0].rows, kRows - 100);
}

/// What a timeout of rank 1 at second 10 claims, beside the 1 ms until it was repaired.
int64_t claimed_ns(const std::vector<std::pair<int64_t, uint64_t>>& acked, std::optional<int64_t> recovered_ns = {}) {
  constexpr int64_t kTimeoutNs = kOriginNs + 10 * kNsPerSecond;
  MemorySource source;
  fill(source, {});
  connect(source);
  if (recovered_ns) {
    source.accept(state_of(1, kOut, kTimeoutNs - *recovered_ns - 10 * kNsPerMs, kCongestionRecovery));
    source.accept(state_of(1, kOut, kTimeoutNs - *recovered_ns, 0));
  }
  source.accept(state_of(1, kOut, kTimeoutNs, kCongestionLoss));
  source.accept(state_of(1, kOut, kTimeoutNs + kNsPerMs, 0));
  for (const auto& [before_ns, bytes] : acked) {
    TcpSample sample = sample_of(1, kOut, kTimeoutNs - before_ns);
    sample.bytes_acked = bytes;
    sample.unacked_bytes = kMss;
    source.accept(sample);
  }
  const Loaded loaded(source);
  const FlowIndex flow = loaded.flows.find(node_of_rank(1), kOut);
  const Interval before{kTimeoutNs - kNsPerSecond, kTimeoutNs + kNsPerMs};
  const FlowLoss loss = loaded.evidence->loss(flow, before);
  EXPECT_EQ(loss.timeouts, 1);
  EXPECT_EQ(loss.early_timeouts, loss.covered_ns < kMinimumRtoNs ? 1 : 0);
  return loss.covered_ns - loss.recovery_ns;
}

TEST(Timeouts, CostTheSmallestTimeoutBeforeThem) {
  EXPECT_EQ(claimed_ns({}), kMinimumRtoNs);
  EXPECT_EQ(claimed_ns({{150 * kNsPerMs, 1000}, {50 * kNsPerMs, 1000}}), kMinimumRtoNs) << "nothing was acknowledged";
  EXPECT_EQ(claimed_ns({{400 * kNsPerMs, 1000}, {250 * kNsPerMs, 2000}}), kMinimumRtoNs) << "it was before";
  EXPECT_EQ(claimed_ns({{100 * kNsPerMs, 2000}}), kMinimumRtoNs) << "whatever was acknowledged may have been before";
  EXPECT_EQ(claimed_ns({{500 * kNsPerMs, 1000}, {90 * kNsPerMs, 2000}}), kMinimumRtoNs) << "the same";
}

/// The host's smallest timeout is shorter, or other bytes than the lost ones were acknowledged.
TEST(Timeouts, CostNoTimeInWhichSamplesShowAcknowledgements) {
  EXPECT_EQ(claimed_ns({{190 * kNsPerMs, 1000}, {90 * kNsPerMs, 2000}}), 90 * kNsPerMs);
  EXPECT_EQ(claimed_ns({{190 * kNsPerMs, 1000}, {90 * kNsPerMs, 2000}, {20 * kNsPerMs, 2000}}), 90 * kNsPerMs);
  EXPECT_EQ(claimed_ns({{190 * kNsPerMs, 1000}, {90 * kNsPerMs, 2000}, {5 * kNsPerMs, 3000}}), 5 * kNsPerMs);
}

TEST(Timeouts, CostNoTimeBeforeTheLastRecoveryEnded) {
  EXPECT_EQ(claimed_ns({}, 50 * kNsPerMs), 50 * kNsPerMs);
  EXPECT_EQ(claimed_ns({}, 300 * kNsPerMs), kMinimumRtoNs);
}

/// Recovery ends in a timeout where the repeated segment is lost, too: nothing was acknowledged.
TEST(Timeouts, InARecoveryCostThatTimeAsWell) {
  constexpr int64_t kTimeoutNs = kOriginNs + 10 * kNsPerSecond;
  MemorySource source;
  fill(source, {});
  connect(source);
  source.accept(state_of(1, kOut, kTimeoutNs - 30 * kNsPerMs, kCongestionRecovery));
  source.accept(state_of(1, kOut, kTimeoutNs, kCongestionLoss));
  source.accept(state_of(1, kOut, kTimeoutNs + kNsPerMs, 0));
  const Loaded loaded(source);
  const FlowIndex flow = loaded.flows.find(node_of_rank(1), kOut);
  EXPECT_EQ(loaded.evidence->loss_intervals(flow).total_ns(), kMinimumRtoNs + kNsPerMs);
}

}  // namespace
}  // namespace stalltrace::analysis
