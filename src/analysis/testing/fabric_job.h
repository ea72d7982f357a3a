// SPDX-License-Identifier: Apache-2.0
// The small job, slow from one step on, on nodes with InfiniBand or RoCE ports whose counters a test chooses.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "analysis/testing/slow_job.h"

namespace stalltrace::analysis::small_job {

/// A counter of a node's port: its rate before the job is slow, and from then on.
struct CounterRates {
  NodeId node = 0;
  std::string name;
  uint64_t calm_per_second = 0;
  uint64_t slow_per_second = 0;
  std::string device = "mlx5_0";
};

/// The agents count for as long before the job as it takes to compare with.
inline constexpr int64_t kCalmSeconds = 10;

/// Adds the counter, read once a second. As an agent, it writes no row for a value that stays the same.
inline void add_counter(MemorySource& source, const CounterRates& rates) {
  const int64_t slow_from = kSlowFrom * kStepNs / kNsPerSecond;
  uint64_t value = 7;
  bool written = false;
  for (int64_t second = -kCalmSeconds; second <= kSteps * kStepNs / kNsPerSecond; ++second) {
    const uint64_t rise = second <= slow_from ? rates.calm_per_second : rates.slow_per_second;
    if (rise > 0 || !written) {
      if (written && second == slow_from + 1 && rates.calm_per_second == 0) {  // the last value before it changed
        source.accept(
            PortCounter{rates.node, kOriginNs + slow_from * kNsPerSecond, rates.device, 1, rates.name, value});
      }
      value += rise;
      source.accept(PortCounter{rates.node, kOriginNs + second * kNsPerSecond, rates.device, 1, rates.name, value});
      written = true;
    }
  }
}

/// Ports of these nodes that carry data and count nothing else.
inline void add_ports(MemorySource& source, const std::set<NodeId>& nodes) {
  for (const NodeId node : nodes) {
    add_counter(source, {node, "port_xmit_data", 1'000'000, 200'000});
  }
}

/// The slow job, each rank on its own node with a port.
inline MemorySource fabric_job(const std::vector<CounterRates>& counters) {
  MemorySource source;
  fill(source, slow());
  add_ports(source, {node_of_rank(0), node_of_rank(1), node_of_rank(2), node_of_rank(3)});
  for (const CounterRates& counter : counters) {
    add_counter(source, counter);
  }
  return source;
}

/// The same counter on all four nodes.
inline std::vector<CounterRates> everywhere(const std::string& name, uint64_t calm, uint64_t slow_rate) {
  std::vector<CounterRates> counters;
  for (int rank = 0; rank < kRanks; ++rank) {
    counters.push_back({node_of_rank(rank), name, calm, slow_rate});
  }
  return counters;
}

}  // namespace stalltrace::analysis::small_job
