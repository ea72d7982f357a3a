// SPDX-License-Identifier: Apache-2.0
// Reads the rows of evidence around the stalls, table by table, within the budget of rows.
#include <algorithm>
#include <array>
#include <limits>

#include "analysis/evidence/evidence.h"
#include "analysis/evidence/reads/tcp_timeouts.h"
#include "analysis/evidence/reads/wait_filter.h"
#include "analysis/thresholds/network.h"
#include "analysis/thresholds/steps.h"
#include "model/streams/node_streams.h"
#include "model/waits/wait_rows.h"

namespace stalltrace::analysis {
namespace {

bool is_trouble(TcpEventKind kind) {
  return kind == TcpEventKind::kResetReceived || kind == TcpEventKind::kResetSent ||
         kind == TcpEventKind::kSocketError || kind == TcpEventKind::kConnectFailed;
}

IntervalSet all_windows(const std::vector<Examined>& examined) {
  std::vector<Interval> windows;
  for (const Examined& one : examined) {
    windows.push_back(with_margins(one.window));
  }
  return IntervalSet(std::move(windows));
}

}  // namespace

class EvidenceLoader {
 public:
  EvidenceLoader(EvidenceStore& store, Cluster& cluster, const Flows& flows, const std::vector<Examined>& examined,
                 int64_t most_rows)
      : store_(store),
        cluster_(cluster),
        flows_(flows),
        windows_(all_windows(examined)),
        waits_(examined, cluster),
        most_rows_(most_rows) {
    reset_events();
    reset_samples();
    reset_waits();
    note_ends();
    store_.names_.emplace_back();
  }

  Status load(EventSource& source) {
    if (windows_.empty()) {
      return {};
    }
    const int64_t slack_ns = cluster_.clock().largest_shift_ns();
    const TimeRange bounds{windows_.intervals().front().from_ns - slack_ns,
                           windows_.intervals().back().to_ns + slack_ns};
    const IntervalSet whole({{bounds.from_ns, bounds.to_ns}});
    ST_TRY(load_table<TcpEvent>(source, bounds, whole, [&] { reset_events(); }));
    ST_TRY(load_table<TcpSample>(source, bounds, windows_, [&] { reset_samples(); }));
    ST_TRY(load_waits(source, bounds));
    ST_ASSIGN(store_.steps_, StepEvidence::load(source, cluster_, windows_));
    ST_ASSIGN(store_.host_, HostEvidence::load(source, cluster_, flows_, windows_, most_rows_));
    note_dropped(EventTraits<ProxyStep>::kTable, store_.steps_.dropped());
    store_.dropped_.insert(store_.dropped_.end(), store_.host_.dropped().begin(), store_.host_.dropped().end());
    finish();
    return {};
  }

 private:
  /// Each table has room of its own, which the `times` share.
  template <typename Row, typename Reset>
  Status load_table(EventSource& source, TimeRange bounds, const IntervalSet& times, Reset reset) {
    RowBudget budget(times, most_rows_);
    const auto read = [&] {
      return stream_by_node<Row>(source, bounds, nullptr, [&](const Row& row) { add(row, budget); });
    };
    ST_TRY(read_fairly(budget, read, reset));
    note_dropped(EventTraits<Row>::kTable, budget.dropped());
    return {};
  }

  /// Those of nodes that a stall names have room of their own: a stall of all ranks does not take it.
  Status load_waits(EventSource& source, TimeRange bounds) {
    RowBudget named(windows_, most_rows_);
    RowBudget others(windows_, most_rows_);
    const auto read = [&]() -> Status {
      WaitRows waits([&](const WaitSpan& row, int64_t over_ns) { add_wait(row, over_ns, named, others); });
      ST_TRY(stream_by_node<WaitSpan>(source, bounds, waits_.nodes(), [&](const WaitSpan& row) { waits.add(row); }));
      waits.finish();
      return {};
    };
    ST_TRY(read());
    const bool named_again = named.again();
    const bool others_again = others.again();
    if (named_again || others_again) {
      if (!named_again) {
        named.repeat();
      }
      if (!others_again) {
        others.repeat();
      }
      reset_waits();
      ST_TRY(read());
    }
    note_dropped(EventTraits<WaitSpan>::kTable, named.dropped() + others.dropped());
    return {};
  }

  void note_dropped(std::string_view table, int64_t rows) {
    if (rows > 0) {
      store_.dropped_.push_back({table, rows});
    }
  }

  void reset_events() {
    store_.flow_events_.assign(flows_.all().size(), {});
    store_.connection_errors_.clear();
    states_.assign(flows_.all().size(), {});
  }
  void reset_samples() { store_.samples_.assign(flows_.all().size(), {}); }
  void reset_waits() {
    store_.waits_.clear();
    store_.waits_.resize(cluster_.members().size());
  }

  /// Of a connection nothing is known after it was closed, its process or the agent ended.
  void note_ends() {
    std::map<NodeId, int64_t> node_ends;
    for (const Node& node : cluster_.nodes()) {
      node_ends[node.node_id] = node.ended_ns ? cluster_.clock().to_common(node.node_id, *node.ended_ns) : kFarFutureNs;
    }
    for (const Flow& flow : flows_.all()) {
      const int64_t exit_ns = cluster_.member(flow.owner).exit_ns.value_or(kFarFutureNs);
      const auto node = node_ends.find(flow.node_id);
      store_.ends_ns_.push_back(
          std::min({flow.closed_ns, exit_ns, node == node_ends.end() ? kFarFutureNs : node->second}));
    }
  }

  /// Not limited to the windows: a state lasts until the next event, also of rows that are not kept.
  void add(const TcpEvent& event, RowBudget& budget) {
    store_.presence_.tcp_events = true;
    const FlowIndex index = flows_.find(event.node_id, event.cookie);
    if (index == kNoFlow) {
      return;
    }
    const int64_t time_ns = cluster_.clock().to_common(event.node_id, event.timestamp_ns);
    const bool kept = budget.room(event.node_id, time_ns);
    EvidenceStore::FlowEvents& events = store_.flow_events_[index];
    if (event.event == TcpEventKind::kCongestionState) {
      State& state = states_[index];
      if (kept && event.state == kCongestionLoss && state.value != kCongestionLoss) {
        events.timeouts.push_back(time_ns);
      }
      if (kept && is_recovering(state.value)) {
        events.recoveries.push_back({state.since_ns, time_ns});
        if (!is_recovering(event.state)) {
          events.repaired.push_back(time_ns);
        }
      }
      state.value = event.state;
      state.since_ns = time_ns;
    } else if (kept && event.event == TcpEventKind::kRetransmit) {
      events.retransmits.push_back({time_ns, event.event_id, event.len});
    } else if (kept && is_trouble(event.event)) {
      store_.connection_errors_.push_back({time_ns, event.event, event.state, index, event.event_id});
    }
  }

  /// A sample shows that its sender does not recover (any more): the event of that is lost.
  void end_recovery(FlowIndex index, int64_t time_ns) {
    const int64_t before_ns = time_ns - kSameMomentNs;  // samples and events are read one after the other
    State& state = states_[index];
    if (is_recovering(state.value) && state.since_ns < before_ns) {
      state.left_ns = std::min(state.left_ns, time_ns);
      return;
    }
    std::vector<Interval>& recoveries = store_.flow_events_[index].recoveries;
    const auto after = std::partition_point(recoveries.begin(), recoveries.end(),
                                            [&](const Interval& recovery) { return recovery.from_ns < before_ns; });
    if (after != recoveries.begin()) {
      Interval& recovery = *std::prev(after);
      recovery.to_ns = std::min(recovery.to_ns, time_ns);
    }
  }

  void add(const TcpSample& sample, RowBudget& budget) {
    store_.presence_.tcp_samples = true;
    const FlowIndex index = flows_.find(sample.node_id, sample.cookie);
    if (index == kNoFlow) {
      return;
    }
    const int64_t time_ns = cluster_.clock().to_common(sample.node_id, sample.timestamp_ns);
    State& state = states_[index];
    state.sampled = state.sampled || is_recovering(sample.ca_state);
    if (state.sampled && !is_recovering(sample.ca_state)) {  // else the kernel may not have reported any state
      end_recovery(index, time_ns);
    }
    if (windows_.covered_ns({time_ns, time_ns + 1}) == 0 || !budget.room(sample.node_id, time_ns)) {
      return;
    }
    store_.samples_[index].push_back({time_ns, sample.bytes_acked, sample.bytes_received, sample.receiver_limited_ns,
                                      sample.busy_ns, sample.unacked_bytes, sample.notsent_bytes, sample.unread_bytes,
                                      sample.snd_wnd, sample.total_retrans, sample.dsack_dups, sample.mss,
                                      sample.packets_out, sample.lost_out, sample.ca_state, sample.backoff});
  }

  /// An open wait lasts until it was over, or to the end of what is judged.
  void add_wait(const WaitSpan& span, int64_t over_ns, RowBudget& named, RowBudget& others) {
    store_.presence_.wait_spans = true;
    const MemberIndex member = waiting_member(span);
    if (member == kNoMember) {
      return;
    }
    const int64_t from_ns = cluster_.clock().to_common(span.node_id, span.timestamp_ns);
    const bool still_open = span.open && over_ns == kForever;
    const int64_t to_ns = still_open  ? windows_.intervals().back().to_ns
                          : span.open ? cluster_.clock().to_common(span.node_id, over_ns)
                                      : from_ns + std::max<int64_t>(span.window_ns, 1);
    const Interval window{from_ns, to_ns};
    const bool is_named = waits_.names(span.node_id, window);
    if (!(is_named || waits_.keeps_all(window)) || !(is_named ? named : others).room(span.node_id, from_ns)) {
      return;
    }
    WaitRecord record{.window = window, .waited_ns = span.open ? window.length() : span.waited_ns, .tid = span.tid};
    record.kind = span.kind;
    record.open = still_open;
    record.idle_before = span.kind == WaitKind::kRunnable && !span.open && span.by_name.empty() && span.count == 1 &&
                         span.waited_ns >= span.window_ns;
    if (span.kind == WaitKind::kRunnable && !span.by_name.empty()) {
      record.competitor = name_index(span.by_name);
      record.competitor_pid = span.by_pid;
      record.competitor_ns = span.by_waited_ns;
      record.competitor_belongs = cluster_.belongs(span.node_id, span.by_pid, span.by_name);
    }
    store_.waits_[member][static_cast<size_t>(span.kind)].records.push_back(record);
  }

  /// The rank of the wait's process. Notes its thread.
  MemberIndex waiting_member(const WaitSpan& span) {
    Waiting& waiting = recent_[static_cast<uint32_t>(span.tid) % recent_.size()];
    if (waiting.node != span.node_id || waiting.pid != span.pid || waiting.tid != span.tid) {
      cluster_.add_thread(span.node_id, span.tid);
      waiting = {span.node_id, span.pid, span.tid, cluster_.find(span.node_id, span.pid)};
    }
    return waiting.member;
  }

  uint32_t name_index(const std::string& name) {
    const auto [found, fresh] = name_index_.try_emplace(name, static_cast<uint32_t>(store_.names_.size()));
    if (fresh) {
      store_.names_.push_back(name);
    }
    return found->second;
  }

  void finish() {
    for (FlowIndex i = 0; i < states_.size(); ++i) {
      EvidenceStore::FlowEvents& events = store_.flow_events_[i];
      if (is_recovering(states_[i].value)) {
        events.recoveries.push_back({states_[i].since_ns, states_[i].left_ns});
      }
      for (Interval& recovery : events.recoveries) {
        recovery.to_ns = std::max(recovery.from_ns, std::min(recovery.to_ns, store_.ends_ns_[i]));
      }
      std::sort(events.retransmits.begin(), events.retransmits.end(),
                [](const Retransmit& a, const Retransmit& b) { return a.time_ns < b.time_ns; });
      add_late_probes(store_.samples_[i], events.retransmits, events.timeouts);
      std::ranges::sort(events.timeouts);
      std::ranges::sort(events.repaired);
      std::vector<Interval> all = events.recoveries;
      add_held_back(store_.samples_[i], events.timeouts, all);
      for (const int64_t time_ns : events.timeouts) {
        const int64_t since_ns = silent_since_ns(store_.samples_[i], events.repaired, time_ns);
        all.push_back({since_ns, time_ns});
        if (since_ns > time_ns - kMinimumRtoNs) {
          events.early_timeouts.push_back(time_ns);
        }
      }
      for (const Retransmit& segment : events.retransmits) {
        all.push_back({segment.time_ns - kRetransmitNs, segment.time_ns + kRetransmitNs});
      }
      store_.recovery_sets_.emplace_back(std::move(events.recoveries));
      store_.loss_sets_.emplace_back(std::move(all));
    }
    std::ranges::stable_sort(store_.connection_errors_, {}, &ConnectionError::time_ns);
    for (auto& kinds : store_.waits_) {
      for (EvidenceStore::Waits& waits : kinds) {
        std::ranges::stable_sort(waits.records, {}, [](const WaitRecord& record) { return record.window.from_ns; });
        for (const WaitRecord& record : waits.records) {
          waits.longest_ns = std::max(waits.longest_ns, record.window.length());
        }
      }
    }
  }

  struct State {
    int value = 0;
    int64_t since_ns = 0;
    int64_t left_ns = kFarFutureNs;  // by a sample, where no event says it
    bool sampled = false;            // samples have shown the connection's recovery
  };

  struct Waiting {
    NodeId node = 0;
    int32_t pid = 0;
    int32_t tid = 0;
    MemberIndex member = kNoMember;
  };

  EvidenceStore& store_;
  Cluster& cluster_;
  const Flows& flows_;
  IntervalSet windows_;
  WaitFilter waits_;
  std::array<Waiting, 64> recent_{};  // by thread id: few threads of a node wait again and again
  std::vector<State> states_;
  std::map<std::string, uint32_t> name_index_;
  int64_t most_rows_;
};

Result<EvidenceStore> EvidenceStore::load(EventSource& source, Cluster& cluster, const Flows& flows,
                                          const std::vector<Examined>& windows, int64_t most_rows) {
  EvidenceStore store;
  store.presence_.connections = !flows.all().empty();
  EvidenceLoader loader(store, cluster, flows, windows, most_rows);
  ST_TRY(loader.load(source));
  return store;
}

Result<EvidenceStore> EvidenceStore::load(EventSource& source, Cluster& cluster, const Flows& flows,
                                          const std::vector<Interval>& windows, int64_t most_rows) {
  std::vector<Examined> examined;
  for (const Interval& window : windows) {
    examined.push_back({.window = window});
  }
  return load(source, cluster, flows, examined, most_rows);
}

}  // namespace stalltrace::analysis
