// SPDX-License-Identifier: Apache-2.0
// What a tracer records of TCP. Part of Recorder.
#include <algorithm>
#include <string>

#include "base/hash.h"
#include "lab/simulation/job.h"
#include "lab/simulation/recording/recorder.h"

namespace stalltrace::simulation {
namespace {

constexpr int64_t kBurstGapNs = kNsPerMs;  // a longer silence ends a burst: span_gap_ns of bpf/wire/config.h
constexpr int64_t kLongestBurstNs = 100 * kNsPerMs;
constexpr int64_t kBytesOfCall = 512 << 10;
constexpr int64_t kSampleEveryNs = 100 * kNsPerMs;
constexpr int kStore = -1;
constexpr uint16_t kStorePort = 29'500;
constexpr int32_t kProgressThread = 5;  // its number above that of the process

/// As the kernel side makes them of single calls.
class Bursts {
 public:
  /// A time in which data moved evenly, not before that of the connection's earlier ones.
  void add(const NetSpan& span) {
    const int64_t end_ns = span.timestamp_ns + span.duration_ns;
    uint64_t rest = span.bytes;
    for (int64_t from_ns = span.timestamp_ns; from_ns < end_ns;) {
      NetSpan part = span;
      part.timestamp_ns = from_ns;
      part.duration_ns = std::min(kLongestBurstNs, end_ns - from_ns);
      from_ns += part.duration_ns;
      const double share = static_cast<double>(part.duration_ns) / static_cast<double>(span.duration_ns);
      part.bytes = from_ns < end_ns ? static_cast<uint64_t>(share * static_cast<double>(span.bytes)) : rest;
      part.calls = static_cast<uint32_t>(part.bytes / kBytesOfCall + 1);
      rest -= part.bytes;
      append(part);
    }
  }
  std::vector<NetSpan>& rows() { return rows_; }

 private:
  void append(const NetSpan& part) {
    const auto [newest, fresh] = newest_.try_emplace({part.cookie, part.is_send}, rows_.size());
    if (!fresh) {
      NetSpan& before = rows_[newest->second];
      const int64_t gap_ns = part.timestamp_ns - before.timestamp_ns - before.duration_ns;
      const int64_t both_ns = part.timestamp_ns + part.duration_ns - before.timestamp_ns;
      if (gap_ns <= kBurstGapNs && both_ns <= kLongestBurstNs) {
        before.duration_ns = std::max(before.duration_ns, both_ns);
        before.bytes += part.bytes;
        before.calls += part.calls;
        return;
      }
    }
    newest->second = rows_.size();
    rows_.push_back(part);
  }

  std::vector<NetSpan> rows_;
  std::map<std::pair<uint64_t, bool>, size_t> newest_;  // by connection and direction
};

}  // namespace

std::map<Recorder::ConnectionKey, uint64_t> Recorder::connections() const {
  std::map<ConnectionKey, uint64_t> known;
  for (int attempt = 0; attempt < static_cast<int>(history_.attempts.size()); ++attempt) {
    for (const uint32_t index : flows_here(attempt)) {
      const Flow& flow = flow_of(attempt, index);
      if (here(flow.src) && options_.tcp) {
        known.try_emplace({attempt, flow.group, flow.src, flow.dst, true});
      }
      if (here(flow.dst) && options_.tcp) {
        known.try_emplace({attempt, flow.group, flow.dst, flow.src, false});
      }
    }
    for (int rank = 1; rank < options_.ranks(); ++rank) {
      if (here(rank)) {
        known.try_emplace({attempt, kStore, rank, 0, true});
      }
    }
  }
  uint64_t cookie = 0x1000;
  for (auto& [key, number] : known) {
    number = ++cookie;
  }
  return known;
}

void Recorder::write_connections(const std::map<ConnectionKey, uint64_t>& connections, EventSink& sink) const {
  for (const auto& [key, cookie] : connections) {
    const RankHistory& own = of(key.attempt, key.src);
    const int64_t opened_ns = own.started_ns + 6 * kNsPerSecond;
    const int64_t closed_ns = own.exit_ns.value_or(kNever);
    if (opened_ns > to_ns_ || closed_ns < from_ns_) {
      continue;
    }
    Connection row{.node_id = Job::node_id(node_), .cookie = cookie, .pid = own.pid, .family = 2};
    const int dialler = key.dialled ? key.src : key.dst;
    const int listener = key.dialled ? key.dst : key.src;
    const auto pair = static_cast<uint64_t>(dialler) << 32 | static_cast<uint64_t>(listener);
    const auto client = static_cast<uint16_t>(
        30'000 + splitmix64_fold(pair, static_cast<uint64_t>(key.group * 8 + key.attempt)) % 30'000);
    const auto server = key.group == kStore ? kStorePort : static_cast<uint16_t>(20'000 + listener % 9'000);
    row.source = {Job::address_of(node_), key.dialled ? client : server};
    row.destination = {Job::address_of(key.dst / options_.ranks_per_node), key.dialled ? server : client};
    row.opened_ns = to_clock(std::max(opened_ns, from_ns_));
    if (closed_ns < to_ns_) {
      row.closed_ns = to_clock(closed_ns);
    }
    row.rank = key.src;
    row.thread_name = key.group == kStore ? "python3" : "NCCL Progress";
    if (key.group != kStore && knows_communicators(own)) {
      row.comm_id_hash = hash_of(key.attempt, key.group);
      row.channel = 0;
    }
    sink.accept(row);
  }
}

void Recorder::write_tcp_events(const std::map<ConnectionKey, uint64_t>& connections, EventSink& sink) const {
  std::vector<TcpEvent> rows;
  for (int attempt = 0; attempt < static_cast<int>(history_.attempts.size()); ++attempt) {
    for (const FlowEvent& event : history_.attempts[static_cast<size_t>(attempt)].flow_events) {
      const auto known = connections.find({attempt, event.group, event.src, event.dst, true});
      if (known == connections.end() || event.time_ns < from_ns_ || event.time_ns >= to_ns_) {
        continue;
      }
      TcpEvent row{.node_id = Job::node_id(node_), .timestamp_ns = to_clock(event.time_ns)};
      row.event = event.retransmit ? TcpEventKind::kRetransmit : TcpEventKind::kCongestionState;
      row.pid = of(attempt, event.src).pid;
      row.rank = event.src;
      row.cookie = known->second;
      row.state = event.state;
      row.len = event.retransmit ? 1448 : 0;
      rows.push_back(row);
    }
  }
  std::ranges::stable_sort(rows, {}, &TcpEvent::timestamp_ns);
  uint64_t number = uint64_t{1} << 36;  // apart from the calls' numbers
  for (TcpEvent& row : rows) {
    row.event_id = make_event_id(row.node_id, ++number);
    sink.accept(row);
  }
}

/// Ten samples a second of a connection that moves data, and one when it has stopped.
void Recorder::write_tcp_samples(const std::map<ConnectionKey, uint64_t>& connections, EventSink& sink) const {
  struct Counters {
    uint64_t acked = 1;
    uint64_t received = 1;
    double busy_ns = 0;
    int64_t sampled_ns = 0;
  };
  std::map<uint64_t, Counters> counters;
  std::vector<TcpSample> rows;
  for (int attempt = 0; attempt < static_cast<int>(history_.attempts.size()); ++attempt) {
    std::vector<const Flow*> flows;
    for (const uint32_t index : flows_here(attempt)) {
      const Flow& flow = flow_of(attempt, index);
      if (here(flow.src)) {
        flows.push_back(&flow);
      }
    }
    std::ranges::stable_sort(flows, {}, &Flow::from_ns);
    for (const Flow* flow : flows) {
      const uint64_t cookie = connections.at({attempt, flow->group, flow->src, flow->dst, true});
      Counters& sum = counters[cookie];
      const int64_t length_ns = std::max<int64_t>(1, flow->to_ns - flow->from_ns);
      const int64_t lost_ns = flow->lost_to_ns - flow->lost_from_ns;
      const auto sample = [&](int64_t time_ns) {
        const double passed = static_cast<double>(time_ns - flow->from_ns) / static_cast<double>(length_ns);
        const int64_t silent_ns = std::clamp<int64_t>(time_ns - flow->lost_from_ns, 0, lost_ns);
        const double done = static_cast<double>(time_ns - flow->from_ns - silent_ns) /
                            static_cast<double>(std::max<int64_t>(1, length_ns - lost_ns));
        TcpSample row{.node_id = Job::node_id(node_), .timestamp_ns = to_clock(time_ns), .cookie = cookie};
        row.pid = of(attempt, flow->src).pid;
        row.srtt_us = 150;
        row.cwnd = 100;
        row.mss = 1448;
        row.snd_wnd = 1 << 20;
        row.rcv_wnd = 1 << 20;
        row.bytes_acked = sum.acked + static_cast<uint64_t>(done * static_cast<double>(flow->bytes));
        row.bytes_received = sum.received;
        row.busy_ns = static_cast<uint64_t>(sum.busy_ns + passed * flow->busy * static_cast<double>(length_ns));
        row.unacked_bytes = done < 1 && flow->busy > 0.5 ? 60'000 : 0;
        row.notsent_bytes = done < 1 && flow->busy > 0.5 ? 500'000 : 0;
        row.packets_out = row.unacked_bytes / row.mss;
        row.tcp_state = 1;
        if (time_ns >= from_ns_ && time_ns < to_ns_) {
          rows.push_back(row);
        }
        sum.sampled_ns = time_ns;
      };
      const int64_t until_ns = std::min(flow->to_ns, to_ns_);
      for (int64_t at = std::max(flow->from_ns, sum.sampled_ns + kSampleEveryNs); at < until_ns; at += kSampleEveryNs) {
        sample(at);
      }
      if (flow->to_ns < to_ns_ && flow->to_ns - sum.sampled_ns >= kSampleEveryNs / 2) {
        sample(flow->to_ns);
      }
      sum.acked += static_cast<uint64_t>(flow->bytes);
      sum.busy_ns += flow->busy * static_cast<double>(length_ns);
    }
  }
  std::ranges::stable_sort(rows, {}, &TcpSample::timestamp_ns);
  for (TcpSample& row : rows) {
    sink.accept(row);
  }
}

/// Bursts of sends and receives: the times in which data moved.
void Recorder::write_tcp_bursts(const std::map<ConnectionKey, uint64_t>& connections, EventSink& sink) const {
  Bursts bursts;
  for (int attempt = 0; attempt < static_cast<int>(history_.attempts.size()); ++attempt) {
    for (const uint32_t index : flows_here(attempt)) {
      const Flow& flow = flow_of(attempt, index);
      const bool is_send = here(flow.src);
      const int rank = is_send ? flow.src : flow.dst;
      const auto known = connections.find({attempt, flow.group, rank, is_send ? flow.dst : flow.src, is_send});
      if (known == connections.end() || flow.from_ns < from_ns_ || flow.to_ns >= to_ns_) {
        continue;
      }
      NetSpan span{.node_id = Job::node_id(node_), .timestamp_ns = flow.from_ns, .cookie = known->second};
      span.duration_ns = flow.to_ns - flow.from_ns;
      span.pid = of(attempt, rank).pid;
      span.tid = span.pid + kProgressThread;
      span.is_send = is_send;
      span.bytes = static_cast<uint64_t>(flow.bytes);
      if (flow.held_to_ns <= flow.held_from_ns) {
        bursts.add(span);
        continue;
      }
      NetSpan after = span;
      span.duration_ns = flow.held_from_ns - flow.from_ns;
      span.bytes /= 2;
      after.timestamp_ns = flow.held_to_ns;
      after.duration_ns = flow.to_ns - flow.held_to_ns;
      after.bytes -= span.bytes;
      bursts.add(span);
      bursts.add(after);
    }
  }
  std::vector<NetSpan>& rows = bursts.rows();
  std::ranges::stable_sort(rows, {}, &NetSpan::timestamp_ns);
  for (NetSpan& row : rows) {
    row.duration_ns = to_clock(row.timestamp_ns + row.duration_ns) - to_clock(row.timestamp_ns);
    row.timestamp_ns = to_clock(row.timestamp_ns);
    sink.accept(row);
  }
}

}  // namespace stalltrace::simulation
