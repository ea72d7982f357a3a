// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/network/fabric/port_contrast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "base/numbers/median.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

double per_second(double count, int64_t time_ns) {
  return time_ns <= 0 ? 0 : count * static_cast<double>(kNsPerSecond) / static_cast<double>(time_ns);
}

/// A rank of each node that has port counters.
std::map<NodeId, MemberIndex> counting_nodes(const AnalysisContext& context, const Stall& stall) {
  std::map<NodeId, MemberIndex> nodes;
  if (context.evidence.host().counts_ports()) {
    for (const MemberIndex member : stall.members) {
      nodes.try_emplace(context.cluster.member(member).node_id, member);
    }
    std::erase_if(nodes, [&](const auto& entry) { return !context.evidence.host().counts_ports(entry.first); });
  }
  return nodes;
}

/// Each node's busiest port, of all nodes but one.
std::optional<double> middle_of_others(const std::map<NodeId, double>& highest, NodeId but) {
  std::vector<double> rates;
  for (const auto& [node, rate] : highest) {
    if (node != but) {
      rates.push_back(rate);
    }
  }
  if (rates.empty()) {
    return std::nullopt;
  }
  return lower_median(std::move(rates));
}

}  // namespace

std::string PortCounts::text(const Cluster& cluster) const {
  std::string text = fmt::format("{} of {} counted {:.0f} a second", port, cluster.node_name(node), per_second);
  text += calm_per_second ? fmt::format(", {:.0f} far from stalls", *calm_per_second) : "";
  text += others_per_second ? fmt::format(", {:.0f} at the middle one of the other nodes", *others_per_second) : "";
  return text + (carries ? "" : ", and carried no data");
}

std::vector<PortCounts> port_counts(const AnalysisContext& context, const Stall& stall, PortCounterKind kind) {
  std::vector<PortCounts> counts;
  const std::set<NodeId> rising = context.evidence.host().nodes_with_rising_ports(kind, stall.examined());
  if (rising.empty()) {
    return counts;
  }
  std::map<NodeId, double> highest;
  for (const auto& [node, member] : counting_nodes(context, stall)) {
    double& most = highest[node];
    if (!rising.contains(node)) {
      continue;
    }
    std::map<std::pair<std::string, int32_t>, PortCounts> ports;
    for (const PortRise& rise : context.evidence.host().port_rises(node, stall.examined())) {
      PortCounts& port = ports[{rise.device, rise.port}];
      const auto found = kind_of_port_counter(rise.name);
      port.carries = port.carries || found == PortCounterKind::kData;
      if (found == kind) {
        port.per_second += per_second(rise.value, stall.examined().length());
        port.rose_ns = std::max(port.rose_ns, rise.rose_ns);
        port.by_counter[rise.name] += rise.value;
        if (rise.calm_per_second) {
          port.calm_per_second = port.calm_per_second.value_or(0) + *rise.calm_per_second;
        }
      }
    }
    for (auto& [key, port] : ports) {
      if (!port.by_counter.empty()) {
        port.node = node;
        port.member = member;
        port.port = fmt::format("{} port {}", key.first, key.second);
        most = std::max(most, port.per_second);
        counts.push_back(std::move(port));
      }
    }
  }
  for (PortCounts& port : counts) {
    port.others_per_second = middle_of_others(highest, port.node);
  }
  std::ranges::stable_sort(counts, std::greater{}, &PortCounts::per_second);
  return counts;
}

std::vector<Evidence> port_evidence(const AnalysisContext& context, const CauseGroup& group,
                                    std::span<const PortCounterKind> kinds) {
  std::set<NodeId> nodes;
  for (const Stall* stall : group.stalls) {
    for (const auto& [node, member] : counting_nodes(context, *stall)) {
      nodes.insert(node);
    }
  }
  struct Rise {
    double inside = 0;
    std::optional<double> calm_per_second;
  };
  std::map<std::string, Rise> rises;
  const IntervalSet times = time_of(group);  // overlapping stalls count each rise once
  for (const NodeId node : nodes) {
    for (const Interval& time : times.intervals()) {
      for (const PortRise& rise : context.evidence.host().port_rises(node, time)) {
        const auto kind = kind_of_port_counter(rise.name);
        if (kind && std::ranges::find(kinds, *kind) != kinds.end()) {
          Rise& sum = rises[fmt::format("{} {} port {}: {}", context.cluster.node_name(node), rise.device, rise.port,
                                        rise.name)];
          sum.inside += rise.value;
          sum.calm_per_second = rise.calm_per_second;
        }
      }
    }
  }
  std::vector<std::pair<std::string, Rise>> sorted(rises.begin(), rises.end());
  std::ranges::stable_sort(sorted, std::greater{}, [](const auto& entry) { return entry.second.inside; });
  sorted.resize(std::min(sorted.size(), kMostPortLines));
  std::vector<Evidence> lines;
  for (const auto& [counter, rise] : sorted) {
    lines.push_back({"port_counter",
                     std::llround(rise.inside),
                     fmt::format("{} rose by {:.0f} during the stalls, {:.0f} a second{}", counter, rise.inside,
                                 per_second(rise.inside, times.total_ns()),
                                 rise.calm_per_second ? fmt::format("; far from stalls {:.0f}", *rise.calm_per_second)
                                                      : "; no time without stalls was recorded to compare with"),
                     {}});
  }
  return lines;
}

}  // namespace stalltrace::analysis
