// SPDX-License-Identifier: Apache-2.0
#include "analysis/evidence/host_evidence.h"

#include <algorithm>
#include <cmath>

#include "analysis/thresholds/fabric.h"
#include "analysis/thresholds/host.h"
#include "model/streams/node_streams.h"

namespace stalltrace::analysis {
namespace {

constexpr std::string_view kDropReasons = "drop_reasons_now";
constexpr std::string_view kThrottled = "throttled_us";

}  // namespace

class HostEvidenceLoader {
 public:
  HostEvidenceLoader(HostEvidence& evidence, const Cluster& cluster, const Flows& flows, int64_t most_rows)
      : evidence_(evidence), cluster_(cluster), flows_(flows), most_rows_(most_rows) {}

  Status load(EventSource& source, TimeRange range, const IntervalSet& windows) {
    ST_TRY(load_table<PacketDrop>(source, range, evidence_.drops_));
    ST_TRY(load_table<HostSample>(source, range, evidence_.numbers_));
    const TimeRange around{range.from_ns - kCalmAroundNs, range.to_ns + kCalmAroundNs};
    ST_TRY(load_table<PortCounter>(source, around, evidence_.ports_));
    note_calm_rates(windows);
    note_rising();
    return {};
  }

 private:
  /// Each table has room of its own.
  template <typename Row, typename Kept>
  Status load_table(EventSource& source, TimeRange range, Kept& kept) {
    RowBudget budget(IntervalSet({{range.from_ns, range.to_ns}}), most_rows_);
    const auto read = [&] {
      return stream_by_node<Row>(source, range, nullptr, [&](const Row& row) { add(row, budget); });
    };
    ST_TRY(read_fairly(budget, read, [&] { kept.clear(); }));
    if (budget.dropped() > 0) {
      evidence_.dropped_.push_back({EventTraits<Row>::kTable, budget.dropped()});
    }
    return {};
  }

  void add(const HostSample& row, RowBudget& budget) {
    const int64_t time_ns = cluster_.clock().to_common(row.node_id, row.timestamp_ns);
    if (row.name == kDropReasons) {
      evidence_.drop_counters_.insert(row.node_id);
    } else if (budget.room(row.node_id, time_ns)) {
      evidence_.numbers_[{row.node_id, row.name, row.detail}].points.emplace_back(time_ns, row.value);
    }
  }

  void add(const PortCounter& row, RowBudget& budget) {
    const int64_t time_ns = cluster_.clock().to_common(row.node_id, row.timestamp_ns);
    if (budget.room(row.node_id, time_ns)) {
      evidence_.ports_[{row.node_id, row.device, row.port, row.name}].points.emplace_back(
          time_ns, static_cast<double>(row.value));
    }
  }

  void add(const PacketDrop& row, RowBudget& budget) {
    const FlowIndex flow = flows_.find(row.node_id, row.cookie);
    const int64_t from_ns = cluster_.clock().to_common(row.node_id, row.timestamp_ns);
    if (flow == kNoFlow || !budget.room(row.node_id, from_ns)) {
      return;
    }
    evidence_.drops_[flow].push_back(
        {{from_ns, from_ns + row.duration_ns + 1}, {row.reason, row.incoming, row.packets, row.bytes}});
  }

  /// A node's agent counted from the first to the last row of any of its ports: a port that carries data has a row each
  /// second. A counter without rows stood still.
  void note_calm_rates(const IntervalSet& windows) {
    std::vector<Interval> stalled;
    for (const Interval& window : windows.intervals()) {
      stalled.push_back({window.from_ns - kHostCounterAroundNs, window.to_ns + kHostCounterAroundNs});
    }
    const IntervalSet stalls(std::move(stalled));
    std::map<NodeId, Interval> counted;
    for (const auto& [key, series] : evidence_.ports_) {
      const auto [found, fresh] =
          counted.try_emplace(std::get<0>(key), Interval{series.points.front().first, series.points.back().first});
      found->second.from_ns = std::min(found->second.from_ns, series.points.front().first);
      found->second.to_ns = std::max(found->second.to_ns, series.points.back().first);
    }
    for (auto& [key, series] : evidence_.ports_) {
      const Interval span = counted.at(std::get<0>(key));
      const int64_t calm_ns = span.length() - stalls.covered_ns(span);
      if (calm_ns < kHostSampleNs) {
        continue;
      }
      double rise = series.rise(span);
      std::vector<Interval> inside;
      stalls.clip(span, inside);
      for (const Interval& time : inside) {
        rise -= series.rise(time);
      }
      series.calm_per_second = std::max(0.0, rise) * static_cast<double>(kNsPerSecond) / static_cast<double>(calm_ns);
    }
  }

  void note_rising() {
    for (const auto& [key, series] : evidence_.ports_) {
      const auto kind = kind_of_port_counter(std::get<3>(key));
      const auto rises = [](const auto& a, const auto& b) { return a.second < b.second; };
      if (kind && std::ranges::adjacent_find(series.points, rises) != series.points.end()) {
        evidence_.rising_ports_[*kind].emplace_back(std::get<0>(key), &series);
      }
    }
  }

  HostEvidence& evidence_;
  const Cluster& cluster_;
  const Flows& flows_;
  int64_t most_rows_;
};

Result<HostEvidence> HostEvidence::load(EventSource& source, const Cluster& cluster, const Flows& flows,
                                        const IntervalSet& windows, int64_t most_rows) {
  HostEvidence evidence;
  const int64_t around_ns = kHostSampleNs + cluster.clock().largest_shift_ns();
  const TimeRange range{windows.intervals().front().from_ns - around_ns, windows.intervals().back().to_ns + around_ns};
  evidence.read_ = {range.from_ns, range.to_ns};
  HostEvidenceLoader loader(evidence, cluster, flows, most_rows);
  ST_TRY(loader.load(source, range, windows));
  return evidence;
}

std::vector<DropSum> HostEvidence::drops(FlowIndex flow, const IntervalSet& times) const {
  std::vector<DropSum> sums;
  const auto found = drops_.find(flow);
  if (found == drops_.end()) {
    return sums;
  }
  for (const Drop& drop : found->second) {
    if (times.covered_ns(drop.time) == 0) {
      continue;
    }
    auto sum = std::find_if(sums.begin(), sums.end(), [&](const DropSum& other) {
      return other.reason == drop.sum.reason && other.incoming == drop.sum.incoming;
    });
    if (sum == sums.end()) {
      sums.push_back({drop.sum.reason, drop.sum.incoming});
      sum = sums.end() - 1;
    }
    sum->packets += drop.sum.packets;
    sum->bytes += drop.sum.bytes;
  }
  std::sort(sums.begin(), sums.end(), [](const DropSum& a, const DropSum& b) { return a.packets > b.packets; });
  return sums;
}

double HostEvidence::Series::rise(Interval window, int64_t* rose_ns) const {
  double sum = 0;
  auto point = std::partition_point(points.begin(), points.end(),
                                    [&](const auto& other) { return other.first <= window.from_ns; });
  for (point = point == points.begin() ? point : point - 1; point != points.end(); ++point) {
    const auto next = point + 1;
    if (next == points.end() || point->first >= window.to_ns) {
      break;
    }
    const Interval between{point->first, next->first};
    const int64_t common_ns = intersect(between, window).length();
    if (next->second > point->second && common_ns > 0) {  // a counter that was reset proves nothing
      sum += (next->second - point->second) * static_cast<double>(common_ns) / static_cast<double>(between.length());
      if (rose_ns != nullptr) {
        *rose_ns += common_ns;
      }
    }
  }
  return sum;
}

std::vector<HostRise> HostEvidence::rises(NodeId node, std::string_view name, const IntervalSet& times) const {
  std::vector<HostRise> rises;
  const std::string key(name);
  for (auto it = numbers_.lower_bound({node, key, ""}); it != numbers_.end(); ++it) {
    if (std::get<0>(it->first) != node || std::get<1>(it->first) != key) {
      break;
    }
    HostRise rise{std::get<2>(it->first)};
    for (const Interval& time : times.intervals()) {
      rise.inside += it->second.rise(time);
    }
    if (rise.inside > 0) {
      rise.outside = std::max(0.0, it->second.rise(read_) - rise.inside);
      rises.push_back(std::move(rise));
    }
  }
  return rises;
}

HostEvidence::Throttling HostEvidence::throttling(NodeId node, int32_t pid, Interval window) const {
  Throttling most;
  const std::string key(kThrottled);
  const std::string process = std::to_string(pid) + ":";
  for (auto it = numbers_.lower_bound({node, key, process}); it != numbers_.end(); ++it) {
    const auto& [of, name, detail] = it->first;
    if (of != node || name != key || !detail.starts_with(process)) {
      break;
    }
    const auto throttled_ns = std::llround(it->second.rise(window) * kNsPerUs);
    if (throttled_ns > most.throttled_ns) {
      most = {throttled_ns, detail.substr(process.size())};
    }
  }
  most.throttled_ns = std::min(most.throttled_ns, window.length());  // it is summed over CPUs
  return most;
}

std::set<NodeId> HostEvidence::nodes_with_rising_ports(PortCounterKind kind, Interval window) const {
  std::set<NodeId> nodes;
  const auto rising = rising_ports_.find(kind);
  if (rising == rising_ports_.end()) {
    return nodes;
  }
  for (const auto& [node, series] : rising->second) {
    if (series->rise(window) > 0) {
      nodes.insert(node);
    }
  }
  return nodes;
}

bool HostEvidence::counts_ports(NodeId node) const {
  const auto it = ports_.lower_bound({node, "", 0, ""});
  return it != ports_.end() && std::get<0>(it->first) == node;
}

std::vector<PortRise> HostEvidence::port_rises(NodeId node, Interval window) const {
  std::vector<PortRise> rises;
  for (auto it = ports_.lower_bound({node, "", 0, ""}); it != ports_.end() && std::get<0>(it->first) == node; ++it) {
    const auto& [of, device, port, name] = it->first;
    PortRise rise{.device = device, .port = port, .name = name, .calm_per_second = it->second.calm_per_second};
    rise.value = it->second.rise(window, &rise.rose_ns);
    if (rise.value > 0) {
      rises.push_back(std::move(rise));
    }
  }
  return rises;
}

}  // namespace stalltrace::analysis
