// SPDX-License-Identifier: Apache-2.0
// Pass 2: what the kernel saw around the stalls. Read once per table, kept compactly, asked by interval.
// All times are on the common clock.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/evidence/flows.h"
#include "analysis/evidence/host_evidence.h"
#include "analysis/evidence/step_evidence.h"
#include "analysis/intervals.h"
#include "analysis/timeline/cluster.h"
#include "base/result.h"

namespace stalltrace::analysis {

/// Congestion states of a TCP sender: TCP_CA_Recovery and TCP_CA_Loss of include/uapi/linux/tcp.h, the two greatest.
inline constexpr int kCongestionRecovery = 3;
inline constexpr int kCongestionLoss = 4;
/// The sender repeats what it takes for lost.
constexpr bool is_recovering(int state) { return state >= kCongestionRecovery; }

/// What one thread did, in one kind of state.
struct WaitRecord {
  Interval window{0, 0};
  int64_t waited_ns = 0;
  int32_t tid = 0;
  WaitKind kind = WaitKind::kBlocked;
  bool open = false;
  bool competitor_belongs = false;  // who ran instead is part of the job or of the tracer
  uint32_t competitor = 0;          // index of a name; 0 none
  int32_t competitor_pid = 0;
  int64_t competitor_ns = 0;
};

/// How much of an interval the busiest thread of a rank spent in a state.
struct WaitShare {
  int64_t covered_ns = 0;
  int64_t occasions = 0;
  int32_t tid = 0;
  std::string competitor;  // who ran instead in the longest wait; empty: unknown
  int32_t competitor_pid = 0;
  bool competitor_belongs = false;  // part of the job or of the tracer, as far as names and processes say
  bool open = false;
};

/// What a flow went through in an interval.
struct FlowLoss {
  Interval window{0, 0};
  int64_t covered_ns = 0;  // union of recovery, timeouts and the silence before them
  int64_t recovery_ns = 0;
  int64_t timeouts = 0;
  int64_t retransmits = 0;
  EventId first_event = 0;
};

/// A segment that the sender sent again.
struct Retransmit {
  int64_t time_ns = 0;
  EventId id = 0;
  uint32_t len = 0;  // payload
};

/// A reset, an error or a refusal that a connection met.
struct ConnectionError {
  int64_t time_ns = 0;
  TcpEventKind kind = TcpEventKind::kResetReceived;
  int32_t error = 0;  // errno, where the kind has one
  FlowIndex flow = kNoFlow;
  EventId id = 0;
};

/// How a flow fared in an interval, from the samples around it.
struct FlowDelta {
  int64_t span_ns = 0;  // between the samples; 0: there are not two
  int64_t busy_ns = 0;  // data was under way
  int64_t receiver_limited_ns = 0;
  uint64_t acked_bytes = 0;
  int64_t samples = 0;        // inside the interval
  int64_t unread = 0;         // of these, with data that this end had not read
  uint64_t unread_bytes = 0;  // of all these together
  uint32_t repeated = 0;      // segments sent again, between the samples
  uint32_t needless = 0;      // of which the peer reported that it had them already
};

/// A time in which a flow's sender sent again and again and nothing was acknowledged.
struct AckGap {
  Interval time{0, 0};
  int64_t last_seen_ns = 0;  // the last sample that shows it
  uint8_t backoff = 0;       // how often the timer doubled
  uint64_t acked_bytes = 0;  // until then, by the sender's count
};

/// One sample of a connection, as deltas need it.
struct SampleRecord {
  int64_t time_ns = 0;
  uint64_t bytes_acked = 0;
  uint64_t bytes_received = 0;
  uint64_t receiver_limited_ns = 0;
  uint64_t busy_ns = 0;
  uint32_t unacked_bytes = 0;
  uint32_t notsent_bytes = 0;
  uint32_t unread_bytes = 0;
  uint32_t snd_wnd = 0;
  uint32_t total_retrans = 0;
  uint32_t dsack_dups = 0;
  uint32_t mss = 0;
  uint32_t packets_out = 0;
  uint32_t lost_out = 0;
  uint8_t ca_state = 0;
  uint8_t backoff = 0;
};

/// Which evidence tables have rows at all, so that `unknown` can name what is missing.
struct EvidencePresence {
  bool tcp_events = false;
  bool tcp_samples = false;
  bool wait_spans = false;
  bool connections = false;
};

class EvidenceStore {
 public:
  /// Keeps only what lies within kEvidenceMarginNs of one of the windows, which are in any order.
  static Result<EvidenceStore> load(EventSource& source, Cluster& cluster, const Flows& flows,
                                    std::vector<Interval> windows);

  [[nodiscard]] FlowLoss loss(FlowIndex flow, Interval window) const;
  /// Intervals in which the flow recovered from loss, for unions over several flows.
  [[nodiscard]] const IntervalSet& loss_intervals(FlowIndex flow) const { return loss_sets_[flow]; }
  /// Those in which it was in congestion state recovery or loss.
  [[nodiscard]] const IntervalSet& recovery_intervals(FlowIndex flow) const { return recovery_sets_[flow]; }
  /// The flow's retransmissions in `window`.
  [[nodiscard]] std::span<const Retransmit> retransmits(FlowIndex flow, Interval window) const;
  /// Resets, errors and refusals of all flows, by time.
  [[nodiscard]] const std::vector<ConnectionError>& troubles() const { return troubles_; }
  [[nodiscard]] FlowDelta delta(FlowIndex flow, Interval window) const;
  /// Most of what the flow's sender sent again in `window` was needless: its peer had it. Nothing was lost.
  [[nodiscard]] bool repeats_needlessly(FlowIndex flow, Interval window) const;
  /// The longest silence that touches `window`, before all those in which the timer doubled as often as kSilentBackoff;
  /// of no length when there is none.
  [[nodiscard]] AckGap silence(FlowIndex flow, Interval window) const;
  [[nodiscard]] bool has_waits(MemberIndex member) const;
  /// The thread of `member` that spent most of `window` in `kind`. For kRunnable only time that something outside
  /// of the job ran counts when `outsiders_only`. `tid` restricts it to one thread. Rows that sum up a span of time
  /// count in full towards each window that they touch, but for no more than their overlap with it.
  [[nodiscard]] WaitShare share(MemberIndex member, WaitKind kind, Interval window, bool outsiders_only = false,
                                int32_t tid = 0) const;
  [[nodiscard]] const std::vector<SampleRecord>& samples(FlowIndex flow) const { return samples_[flow]; }
  [[nodiscard]] const HostEvidence& host() const { return host_; }
  [[nodiscard]] const StepEvidence& steps() const { return steps_; }
  [[nodiscard]] const EvidencePresence& presence() const { return presence_; }
  [[nodiscard]] int64_t dropped_rows() const { return dropped_ + steps_.dropped(); }

 private:
  friend class EvidenceLoader;
  struct FlowEvents {
    std::vector<Interval> recoveries;
    std::vector<int64_t> timeouts;  // when a retransmission timer fired, or a probe after as long a silence
    std::vector<Retransmit> retransmits;
  };

  std::vector<FlowEvents> flow_events_;
  std::vector<IntervalSet> loss_sets_;
  std::vector<IntervalSet> recovery_sets_;
  std::vector<std::vector<SampleRecord>> samples_;
  std::vector<ConnectionError> troubles_;
  std::vector<std::vector<WaitRecord>> waits_;  // per member, by start
  std::vector<int64_t> longest_wait_ns_;        // per member: how far back a record can reach
  std::vector<std::string> names_;
  HostEvidence host_;
  StepEvidence steps_;
  EvidencePresence presence_;
  int64_t dropped_ = 0;
};

}  // namespace stalltrace::analysis
