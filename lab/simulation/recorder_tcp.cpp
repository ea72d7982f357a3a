// SPDX-License-Identifier: Apache-2.0
// What a tracer records of TCP. Part of Recorder.
#include <algorithm>
#include <string>

#include "base/hash.h"
#include "lab/simulation/job.h"
#include "lab/simulation/recorder.h"

namespace stalltrace::simulation {
namespace {

constexpr int64_t kSampleEveryNs = 100 * kNsPerMs;
constexpr int kStore = -1;
constexpr uint16_t kStorePort = 29'500;

}  // namespace

std::map<Recorder::ConnectionKey, uint64_t> Recorder::connections() const {
  std::map<ConnectionKey, uint64_t> known;
  for (int attempt = 0; attempt < static_cast<int>(history_.attempts.size()); ++attempt) {
    for (const Flow& flow : history_.attempts[static_cast<size_t>(attempt)].flows) {
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
    for (const Flow& flow : history_.attempts[static_cast<size_t>(attempt)].flows) {
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

}  // namespace stalltrace::simulation
