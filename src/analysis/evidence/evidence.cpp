// SPDX-License-Identifier: Apache-2.0
#include "analysis/evidence/evidence.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>

#include "analysis/thresholds.h"
#include "model/streams/node_streams.h"
#include "model/waits/wait_rows.h"

namespace stalltrace::analysis {
namespace {

bool is_trouble(TcpEventKind kind) {
  return kind == TcpEventKind::kResetReceived || kind == TcpEventKind::kResetSent ||
         kind == TcpEventKind::kSocketError || kind == TcpEventKind::kConnectFailed;
}

Interval with_margins(const Interval& window) {
  return {window.from_ns - kEvidenceMarginNs, window.to_ns + kEvidenceMarginNs};
}

IntervalSet all_windows(const std::vector<Examined>& examined) {
  std::vector<Interval> windows;
  for (const Examined& one : examined) {
    windows.push_back(with_margins(one.window));
  }
  return IntervalSet(std::move(windows));
}

/// Adds retransmissions that are tail loss probes of a single packet: outside of recovery, with nothing else in flight.
/// The kernel sends such a probe no sooner than the smallest timeout after the packet (net/ipv4/tcp_output.c,
/// tcp_schedule_loss_probe). The sample that a retransmission causes follows it at once.
void add_late_probes(const std::vector<SampleRecord>& samples, const std::vector<Retransmit>& retransmits,
                     std::vector<int64_t>& timeouts) {
  for (const Retransmit& repeat : retransmits) {
    const auto sample = std::partition_point(samples.begin(), samples.end(),
                                             [&](const SampleRecord& s) { return s.time_ns < repeat.time_ns; });
    if (sample != samples.end() && sample->time_ns - repeat.time_ns <= kSampleAfterRepeatNs &&
        sample->packets_out == 1 && !is_recovering(sample->ca_state)) {
      timeouts.push_back(repeat.time_ns);
    }
  }
}

/// True for a sender that has data and room at the receiver, has nothing in flight, and sends nothing.
bool holds_back(const SampleRecord& sample) {
  return sample.unacked_bytes == 0 && sample.notsent_bytes > 0 && sample.snd_wnd > 0;
}

/// Intervals in which a sender held data back right after a timeout: it waits for its timer, which the timeout has
/// doubled. An unchanged sample is not written: the last one is valid until the next. `timeouts` are in time order.
void held_back(const std::vector<SampleRecord>& samples, const std::vector<int64_t>& timeouts,
               std::vector<Interval>& into) {
  for (size_t i = 0; i + 1 < samples.size();) {
    size_t next = i;
    while (next + 1 < samples.size() && holds_back(samples[next]) &&
           samples[next].bytes_acked == samples[i].bytes_acked) {
      ++next;
    }
    const auto later = std::upper_bound(timeouts.begin(), timeouts.end(), samples[i].time_ns);
    if (next > i && later != timeouts.begin() && samples[i].time_ns - *std::prev(later) <= kHeldAfterTimeoutNs) {
      into.push_back({samples[i].time_ns, samples[next].time_ns});
    }
    i = std::max(next, i + 1);
  }
}

}  // namespace

/// Whose waits are kept, and when. Of thousands of nodes, most stalls need a few.
class WaitFilter {
 public:
  WaitFilter(const std::vector<Examined>& examined, const Cluster& cluster) {
    std::vector<Interval> of_all;
    std::map<NodeId, std::vector<Interval>> of_nodes;
    for (const Examined& one : examined) {
      if (one.waits_of.empty()) {
        of_all.push_back(with_margins(one.window));
        continue;
      }
      std::set<NodeId> nodes;
      for (const MemberIndex member : one.waits_of) {
        nodes.insert(cluster.member(member).node_id);
      }
      for (const NodeId node : nodes) {
        of_nodes[node].push_back(with_margins(one.window));
      }
    }
    for (auto& [node, windows] : of_nodes) {
      of_nodes_.emplace(node, std::move(windows));
      nodes_.insert(node);
    }
    of_all_ = IntervalSet(std::move(of_all));
  }

  /// Null: all.
  [[nodiscard]] const std::set<NodeId>* nodes() const { return of_all_.empty() ? &nodes_ : nullptr; }
  /// A stall that needs few nodes' waits needs this node's, in this time.
  [[nodiscard]] bool names(NodeId node, Interval window) const {
    const auto found = of_nodes_.find(node);
    return found != of_nodes_.end() && found->second.covered_ns(window) > 0;
  }
  /// A stall needs all nodes' waits of this time.
  [[nodiscard]] bool keeps_all(Interval window) const { return of_all_.covered_ns(window) > 0; }

 private:
  IntervalSet of_all_;
  std::unordered_map<NodeId, IntervalSet> of_nodes_;
  std::set<NodeId> nodes_;
};

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
      }
      state.value = event.state;
      state.since_ns = time_ns;
    } else if (kept && event.event == TcpEventKind::kRetransmit) {
      events.retransmits.push_back({time_ns, event.event_id, event.len});
    } else if (kept && is_trouble(event.event)) {
      store_.connection_errors_.push_back({time_ns, event.event, event.state, index, event.event_id});
    }
  }

  /// A sample shows that its sender does not recover (any more): the event that would have said so is lost.
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
    cluster_.add_thread(span.node_id, span.tid);
    const MemberIndex member = cluster_.find(span.node_id, span.pid);
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
    if (span.kind == WaitKind::kRunnable && !span.by_name.empty()) {
      record.competitor = name_index(span.by_name);
      record.competitor_pid = span.by_pid;
      record.competitor_ns = span.by_waited_ns;
      record.competitor_belongs = cluster_.belongs(span.node_id, span.by_pid, span.by_name);
    }
    store_.waits_[member][static_cast<size_t>(span.kind)].records.push_back(record);
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
      std::sort(events.timeouts.begin(), events.timeouts.end());
      std::vector<Interval> all = events.recoveries;
      held_back(store_.samples_[i], events.timeouts, all);
      for (const int64_t time_ns : events.timeouts) {
        all.push_back({time_ns - kMinimumRtoNs, time_ns});
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

  EvidenceStore& store_;
  Cluster& cluster_;
  const Flows& flows_;
  IntervalSet windows_;
  WaitFilter waits_;
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

FlowLoss EvidenceStore::loss(FlowIndex flow, Interval window) const {
  FlowLoss loss{.window = window};
  if (flow >= loss_sets_.size()) {
    return loss;
  }
  const FlowEvents& events = flow_events_[flow];
  loss.covered_ns = loss_sets_[flow].covered_ns(window);
  loss.recovery_ns = recovery_sets_[flow].covered_ns(window);
  loss.timeouts = std::upper_bound(events.timeouts.begin(), events.timeouts.end(), window.to_ns) -
                  std::lower_bound(events.timeouts.begin(), events.timeouts.end(), window.from_ns);
  const std::span<const Retransmit> repeated = retransmits(flow, window);
  loss.retransmits = static_cast<int64_t>(repeated.size());
  loss.first_event = repeated.empty() ? 0 : repeated.front().id;
  return loss;
}

std::span<const Retransmit> EvidenceStore::retransmits(FlowIndex flow, Interval window) const {
  if (flow >= flow_events_.size()) {
    return {};
  }
  const auto before = [](const Retransmit& segment, int64_t time_ns) { return segment.time_ns < time_ns; };
  const std::vector<Retransmit>& all = flow_events_[flow].retransmits;
  const auto begin = std::lower_bound(all.begin(), all.end(), window.from_ns, before);
  return {begin, std::lower_bound(begin, all.end(), window.to_ns, before)};
}

FlowDelta EvidenceStore::delta(FlowIndex flow, Interval window) const {
  FlowDelta delta;
  if (flow >= samples_.size() || samples_[flow].empty()) {
    return delta;
  }
  const std::vector<SampleRecord>& samples = samples_[flow];
  const auto before = [](int64_t time_ns) { return [=](const SampleRecord& s) { return s.time_ns < time_ns; }; };
  auto first = std::partition_point(samples.begin(), samples.end(), before(window.from_ns));
  const auto last = std::partition_point(first, samples.end(), before(window.to_ns));
  delta.samples = last - first;
  for (auto sample = first; sample != last; ++sample) {
    delta.unread += sample->unread_bytes > 0 ? 1 : 0;
    delta.unread_bytes += sample->unread_bytes;
  }
  first = first == samples.begin() ? first : first - 1;
  const SampleRecord& begin = *first;
  const SampleRecord& end = last == samples.end() ? samples.back() : *last;
  delta.span_ns = end.time_ns - begin.time_ns;
  delta.busy_ns = static_cast<int64_t>(end.busy_ns - begin.busy_ns);
  delta.receiver_limited_ns = static_cast<int64_t>(end.receiver_limited_ns - begin.receiver_limited_ns);
  delta.acked_bytes = end.bytes_acked - begin.bytes_acked;
  delta.repeated = end.total_retrans - begin.total_retrans;
  delta.needless = end.dsack_dups - begin.dsack_dups;
  return delta;
}

bool EvidenceStore::repeats_needlessly(FlowIndex flow, Interval window) const {
  const FlowDelta seen = delta(flow, {window.from_ns, window.to_ns + kNeedlessReportedNs});
  return seen.needless > 0 && static_cast<double>(seen.needless) >= kNeedlessShare * static_cast<double>(seen.repeated);
}

AckGap EvidenceStore::silence(FlowIndex flow, Interval window) const {
  AckGap longest;
  if (flow >= samples_.size()) {
    return longest;
  }
  const std::vector<SampleRecord>& samples = samples_[flow];
  const auto same_silence = [](const SampleRecord& a, const SampleRecord& b) {
    return a.unacked_bytes > 0 && b.unacked_bytes > 0 && a.bytes_acked == b.bytes_acked;
  };
  auto first = std::ranges::partition_point(
      samples, [&](const SampleRecord& sample) { return sample.time_ns < window.from_ns; });
  first = first == samples.begin() ? first : first - 1;  // an unchanged sample is not written: it holds until the next
  while (first != samples.begin() && first != samples.end() && same_silence(first[-1], *first)) {
    --first;
  }
  while (first != samples.end() && first->time_ns < window.to_ns) {
    auto next = first;
    AckGap silence{.acked_bytes = first->bytes_acked};
    while (next != samples.end() && same_silence(*first, *next)) {
      silence.backoff = std::max(silence.backoff, next->backoff);
      silence.last_seen_ns = next->time_ns;
      ++next;
    }
    if (next != first) {
      const int64_t last_ns = std::max(silence.last_seen_ns, std::min(window.to_ns, ends_ns_[flow]));
      silence.time = {first->time_ns, next != samples.end() ? next->time_ns : last_ns};
      const auto rank = [&](const AckGap& one) {
        return std::pair(one.backoff >= kSilentBackoff, intersect(one.time, window).length());
      };
      if (intersect(silence.time, window).length() > 0 && rank(silence) > rank(longest)) {
        longest = silence;
      }
    }
    first = std::max(next, first + 1);
  }
  return longest;
}

bool EvidenceStore::has_waits(MemberIndex member) const {
  return member < waits_.size() &&
         std::ranges::any_of(waits_[member], [](const Waits& waits) { return !waits.records.empty(); });
}

WaitShare EvidenceStore::share(MemberIndex member, WaitKind kind, Interval window, Competitors competitors,
                               int32_t tid) const {
  std::map<int32_t, WaitShare> threads;
  if (member >= waits_.size()) {
    return {};
  }
  const Waits& waits = waits_[member][static_cast<size_t>(kind)];
  const std::vector<WaitRecord>& records = waits.records;
  auto record = std::partition_point(records.begin(), records.end(), [&](const WaitRecord& r) {
    return r.window.from_ns < window.from_ns - waits.longest_ns;
  });
  std::map<int32_t, int64_t> competitor_best;
  for (; record != records.end() && record->window.from_ns < window.to_ns; ++record) {
    const int64_t overlap_ns = intersect(record->window, window).length();
    if (overlap_ns == 0 || (tid != 0 && record->tid != tid)) {
      continue;
    }
    // A summary has an amount but no times: it counts towards the overlapping stall, up to the overlap.
    int64_t waited_ns = std::min(record->waited_ns, overlap_ns);
    if (competitors == Competitors::kOutsideJob) {
      const bool mostly =
          static_cast<double>(record->competitor_ns) >= kMainCompetitorShare * static_cast<double>(record->waited_ns);
      waited_ns = record->competitor == 0 || record->competitor_belongs ? 0
                  : mostly                                              ? waited_ns
                                                                        : std::min(waited_ns, record->competitor_ns);
    }
    WaitShare& thread = threads[record->tid];
    thread.tid = record->tid;
    thread.covered_ns += waited_ns;
    thread.open = thread.open || record->open;
    ++thread.occasions;
    if (record->competitor != 0 && waited_ns > competitor_best[record->tid]) {
      competitor_best[record->tid] = waited_ns;
      thread.competitor = names_[record->competitor];
      thread.competitor_pid = record->competitor_pid;
      thread.competitor_belongs = record->competitor_belongs;
    }
  }
  WaitShare best;
  for (auto& [id, thread] : threads) {
    thread.covered_ns = std::min(thread.covered_ns, window.length());
    if (thread.covered_ns > best.covered_ns) {
      best = thread;
    }
  }
  return best;
}

}  // namespace stalltrace::analysis
