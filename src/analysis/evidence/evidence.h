// SPDX-License-Identifier: Apache-2.0
// Pass 2: the kernel's evidence around the stalls. Each table is read once, kept compactly and queried by interval. All
// times are on the common clock.
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
#include "analysis/evidence/reads/row_budget.h"
#include "analysis/evidence/step_evidence.h"
#include "analysis/intervals.h"
#include "analysis/thresholds/bounds.h"
#include "analysis/timeline/cluster.h"
#include "base/result.h"

namespace stalltrace::analysis {

/// Congestion states of a TCP sender: TCP_CA_Recovery and TCP_CA_Loss of include/uapi/linux/tcp.h, the two greatest.
inline constexpr int kCongestionRecovery = 3;
inline constexpr int kCongestionLoss = 4;
/// True while the sender retransmits what it considers lost.
constexpr bool is_recovering(int state) { return state >= kCongestionRecovery; }

/// One thread in one kind of state.
struct WaitRecord {
  Interval window{0, 0};
  int64_t waited_ns = 0;
  int32_t tid = 0;
  WaitKind kind = WaitKind::kBlocked;
  bool open = false;
  bool competitor_belongs = false;  // the competitor is part of the job or of the tracer
  bool idle_before = false;         // kRunnable: a single wait, and the core that ended it had nothing to run
  uint32_t competitor = 0;          // index of a name; 0: none
  int32_t competitor_pid = 0;
  int64_t competitor_ns = 0;
};

/// The time that the busiest thread of a rank spent in a state during an interval.
struct WaitShare {
  int64_t covered_ns = 0;
  int64_t occasions = 0;
  int32_t tid = 0;
  std::string competitor;  // the competitor in the longest wait; empty: unknown
  int32_t competitor_pid = 0;
  bool competitor_belongs = false;  // part of the job or of the tracer, by its name and process
  bool open = false;
};

/// Losses of a flow in an interval.
struct FlowLoss {
  Interval window{0, 0};
  int64_t covered_ns = 0;  // union of recovery, timeouts and the silence before them
  int64_t recovery_ns = 0;
  int64_t timeouts = 0;
  int64_t early_timeouts = 0;  // of these, those after a silence shorter than the smallest timeout
  int64_t retransmits = 0;
  EventId first_event = 0;
};

/// A retransmitted segment.
struct Retransmit {
  int64_t time_ns = 0;
  EventId id = 0;
  uint32_t len = 0;  // payload bytes
};

/// A reset, error or refusal on a connection.
struct ConnectionError {
  int64_t time_ns = 0;
  TcpEventKind kind = TcpEventKind::kResetReceived;
  int32_t error = 0;  // errno, for kinds that have one
  FlowIndex flow = kNoFlow;
  EventId id = 0;
};

/// A flow's counters over an interval, from the samples around it.
struct FlowDelta {
  int64_t span_ns = 0;  // between the samples; 0: fewer than two
  int64_t busy_ns = 0;  // data was in flight
  int64_t receiver_limited_ns = 0;
  uint64_t acked_bytes = 0;
  int64_t samples = 0;        // inside the interval
  int64_t unread = 0;         // of these, samples with data that this end had not read
  uint64_t unread_bytes = 0;  // sum over these samples
  uint32_t repeated = 0;      // retransmitted segments between the samples
  uint32_t needless = 0;      // of these, segments that the peer reported as duplicates
};

/// An interval in which the sender retransmitted and nothing was acknowledged.
struct AckGap {
  Interval time{0, 0};
  int64_t last_seen_ns = 0;  // last sample that shows it
  uint8_t backoff = 0;       // number of times the timer doubled
  uint64_t acked_bytes = 0;  // by the sender's count, before the gap
};

/// The fields of a connection sample that deltas need.
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

/// Which kRunnable waits count, and whose time on a core as their reason.
enum class Competitors : uint8_t {
  kAll,         // also where nothing had the core: a cgroup that may not run, a switch of tasks that was not seen
  kSomething,   // all but those
  kOutsideJob,  // those behind programs that are not of the job
};

/// Which evidence tables have rows, so that `unknown` can name the missing ones.
struct EvidencePresence {
  bool tcp_events = false;
  bool tcp_samples = false;
  bool wait_spans = false;
  bool connections = false;
};

/// A time that rules ask about.
struct Examined {
  Interval window{0, 0};
  /// What threads waited for is read of the nodes of these ranks; empty: of all nodes.
  std::vector<MemberIndex> waits_of = {};
};

class EvidenceStore {
 public:
  /// Keeps only rows within kEvidenceMarginNs of one of the windows, which may be in any order.
  static Result<EvidenceStore> load(EventSource& source, Cluster& cluster, const Flows& flows,
                                    const std::vector<Examined>& windows, int64_t most_rows = kMaxEvidenceRows);
  /// The same with the waits of all nodes.
  static Result<EvidenceStore> load(EventSource& source, Cluster& cluster, const Flows& flows,
                                    const std::vector<Interval>& windows, int64_t most_rows = kMaxEvidenceRows);

  /// What the flow lost in `window`: all zero where it has no rows. O(log rows), plus the intervals in the window.
  [[nodiscard]] FlowLoss loss(FlowIndex flow, Interval window) const;
  /// Intervals in which the flow recovered from loss, to be joined over several flows.
  [[nodiscard]] const IntervalSet& loss_intervals(FlowIndex flow) const { return loss_sets_[flow]; }
  /// Intervals in congestion state recovery or loss.
  [[nodiscard]] const IntervalSet& recovery_intervals(FlowIndex flow) const { return recovery_sets_[flow]; }
  /// The flow's retransmissions in `window`.
  [[nodiscard]] std::span<const Retransmit> retransmits(FlowIndex flow, Interval window) const;
  /// Resets, errors and refusals of all flows, by time.
  [[nodiscard]] const std::vector<ConnectionError>& connection_errors() const { return connection_errors_; }
  /// How far the flow's counters went from the last sample before `window` to the first one after it; the time between
  /// these two is `span_ns`, 0 where there are no samples. O(log samples + samples in the window).
  [[nodiscard]] FlowDelta delta(FlowIndex flow, Interval window) const;
  /// True if most retransmissions in `window` were needless because the peer had the data: nothing was lost.
  [[nodiscard]] bool repeats_needlessly(FlowIndex flow, Interval window) const;
  /// The longest silence that overlaps `window`; silences in which the timer doubled kSilentBackoff times come first.
  /// Zero length if there is none.
  [[nodiscard]] AckGap silence(FlowIndex flow, Interval window) const;
  /// Whether any wait of this member was kept, of whatever time.
  [[nodiscard]] bool has_waits(MemberIndex member) const;
  /// The thread of `member` that spent most of `window` in `kind`. With kOutsideJob, kRunnable counts only time
  /// in which a process outside of the job ran. `tid` restricts the search to one thread. A row that sums up several
  /// waits counts in full towards each overlapping window, but with no more than the overlap.
  [[nodiscard]] WaitShare share(MemberIndex member, WaitKind kind, Interval window,
                                Competitors competitors = Competitors::kAll, int32_t tid = 0) const;
  [[nodiscard]] const std::vector<SampleRecord>& samples(FlowIndex flow) const { return samples_[flow]; }
  [[nodiscard]] const HostEvidence& host() const { return host_; }
  [[nodiscard]] const StepEvidence& steps() const { return steps_; }
  [[nodiscard]] const EvidencePresence& presence() const { return presence_; }
  /// Rows of tables that have more than were kept; of each second of the stalls alike.
  [[nodiscard]] const std::vector<DroppedRows>& dropped_rows() const { return dropped_; }

 private:
  friend class EvidenceLoader;
  struct FlowEvents {
    std::vector<Interval> recoveries;
    std::vector<int64_t> timeouts;  // when a retransmission timer fired, or a probe was sent after as long a silence
    std::vector<int64_t> early_timeouts;  // of these, those after a silence that is shorter than the smallest timeout
    std::vector<int64_t> repaired;        // when it left recovery
    std::vector<Retransmit> retransmits;
  };

  std::vector<FlowEvents> flow_events_;
  std::vector<IntervalSet> loss_sets_;
  std::vector<IntervalSet> recovery_sets_;
  std::vector<std::vector<SampleRecord>> samples_;
  std::vector<ConnectionError> connection_errors_;
  static constexpr size_t kWaitKinds = 5;
  /// Waits of one kind, by start.
  struct Waits {
    std::vector<WaitRecord> records;
    int64_t longest_ns = 0;  // bounds how far back a record can begin
  };
  std::vector<std::array<Waits, kWaitKinds>> waits_;  // per member
  std::vector<std::string> names_;
  HostEvidence host_;
  StepEvidence steps_;
  EvidencePresence presence_;
  std::vector<DroppedRows> dropped_;
  std::vector<int64_t> ends_ns_;  // per flow: nothing is known of it later
};

}  // namespace stalltrace::analysis
