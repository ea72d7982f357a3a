// SPDX-License-Identifier: Apache-2.0
#include "lab/simulation/network.h"

#include <algorithm>

namespace stalltrace::simulation {
namespace {

constexpr double kWithinNodeBytesPerNs = 100;  // 100 GB/s
constexpr double kBetweenNodesBytesPerNs = 10;
constexpr int64_t kLatencyNs = 60 * kNsPerUs;

int64_t ms(double value) { return static_cast<int64_t>(value * static_cast<double>(kNsPerMs)); }

/// What each rank sends on a ring, as a multiple of the payload.
double ring_share(Operation op, size_t ranks) {
  const auto n = static_cast<double>(ranks);
  return op == Operation::kAllReduce ? 2 * (n - 1) / n : (n - 1) / n;
}

}  // namespace

Network::Network(const JobOptions& options, const Layout& layout) : options_(options), random_(options.seed, 0xa0) {
  for (const Group& group : layout.groups) {
    std::vector<Edge> edges;
    for (size_t i = 0; group.ranks.size() > 1 && i < group.ranks.size(); ++i) {
      const Edge edge{group.ranks[i], group.ranks[(i + 1) % group.ranks.size()]};
      if (node_of(edge.src) != node_of(edge.dst)) {
        edges.push_back(edge);
      }
    }
    edges_.push_back(std::move(edges));
  }
}

/// Mostly fast recoveries, sometimes a lost tail that only the timer repeats.
int64_t Network::lose(const Edge& edge, int group, int64_t from_ns, Attempt& attempt) {
  int64_t time_ns = from_ns;
  const auto add = [&](int64_t at_ns, bool retransmit, int state) {
    attempt.flow_events.push_back({edge.src, edge.dst, group, at_ns, retransmit, state});
  };
  if (random_.chance(0.6)) {
    time_ns += 200 * kNsPerMs + ms(random_.between(0, 4));
    add(time_ns, false, 4);
    add(time_ns + 1000, true, 4);
    if (random_.chance(0.1)) {  // the repeated packet is lost as well: the timer doubles
      time_ns += 400 * kNsPerMs;
      add(time_ns, true, 4);
    }
    time_ns += ms(random_.between(0.3, 1));
    add(time_ns, false, 0);
    return time_ns;
  }
  add(time_ns, false, 1);
  time_ns += ms(random_.between(0.1, 0.5));
  add(time_ns, false, 3);
  for (int i = 0; i < 3; ++i) {
    add(time_ns + i * 1000, true, 3);
  }
  time_ns += ms(random_.between(1, 9));
  add(time_ns, false, 0);
  return time_ns;
}

int64_t Network::transfer(int group, const std::vector<Edge>& edges, int64_t bytes, int64_t begin_ns, int step,
                          Attempt& attempt) {
  const double rate = edges.empty() ? kWithinNodeBytesPerNs : kBetweenNodesBytesPerNs;
  const int64_t fixed_ns =
      options_.transfer_ms > 0 ? ms(options_.transfer_ms) : static_cast<int64_t>(static_cast<double>(bytes) / rate);
  const int64_t usual_ns =
      kLatencyNs + static_cast<int64_t>(static_cast<double>(fixed_ns) * std::max(0.8, random_.normal(1, 0.03)));
  const int64_t noise_ns = ms(random_.exponential(options_.noise_ms / 4 + 0.001));
  double factor = 1;
  int slow_node = -1;
  int64_t lost_ns = 0;
  const Edge* lossy = nullptr;
  const int64_t lost_from_ns = begin_ns + usual_ns / 2;
  for (const Fault& fault : options_.faults) {
    const int node = node_of(fault.rank);
    const auto leaves = [&](const Edge& edge) {
      return fault.kind == FaultKind::kCongestion || node_of(edge.src) == node;
    };
    const auto edge = std::ranges::find_if(edges, leaves);
    if (edge == edges.end() || step < fault.from || step >= fault.to) {
      continue;
    }
    if (fault.kind == FaultKind::kSlowLink || fault.kind == FaultKind::kFabricErrors) {
      factor = fault.factor;
      slow_node = node;
    } else if (fault.kind == FaultKind::kCongestion) {
      factor = 1 + (fault.factor - 1) * random_.between(0.5, 1.5);
    } else if (fault.kind == FaultKind::kPacketLoss && random_.chance(fault.per_step / options_.units)) {
      lost_ns += lose(*edge, group, lost_from_ns, attempt) - lost_from_ns;
      lossy = &*edge;
    }
  }
  const auto slow_ns = static_cast<int64_t>(static_cast<double>(usual_ns) * factor);
  const int64_t end_ns = begin_ns + slow_ns + lost_ns + noise_ns;
  for (const Edge& edge : edges) {
    const double busy = slow_node < 0 || node_of(edge.src) == slow_node ? 1 : 1 / factor;
    attempt.flows.push_back({edge.src, edge.dst, group, begin_ns, end_ns, bytes, busy});
    if (lost_ns > 0) {
      attempt.flows.back().held_from_ns = lost_from_ns;
      attempt.flows.back().held_to_ns = lost_from_ns + lost_ns;
    }
    if (&edge == lossy) {
      attempt.flows.back().lost_from_ns = lost_from_ns;
      attempt.flows.back().lost_to_ns = lost_from_ns + lost_ns;
    }
    if (options_.network_events && random_.chance(0.01)) {  // reordering: needless repeats, which cost nothing
      const int64_t time_ns = begin_ns + usual_ns / 3;
      attempt.flow_events.push_back({edge.src, edge.dst, group, time_ns, false, 3});
      attempt.flow_events.push_back({edge.src, edge.dst, group, time_ns, true, 3});
      attempt.flow_events.push_back({edge.src, edge.dst, group, time_ns + ms(random_.between(0.2, 2)), false, 0});
    }
  }
  return end_ns;
}

int64_t Network::collective(int group, Operation op, int64_t bytes, int64_t begin_ns, int step, Attempt& attempt) {
  const std::vector<Edge>& ring = edges(group);
  const size_t ranks = std::max<size_t>(2, ring.size());
  const auto sent = static_cast<int64_t>(static_cast<double>(bytes) * ring_share(op, ranks));
  return transfer(group, ring, sent, begin_ns, step, attempt);
}

int64_t Network::send(int group, int src, int dst, int64_t bytes, int64_t begin_ns, int step, Attempt& attempt) {
  std::vector<Edge> path;
  if (node_of(src) != node_of(dst)) {
    path.push_back({src, dst});
  }
  return transfer(group, path, bytes, begin_ns, step, attempt);
}

}  // namespace stalltrace::simulation
