// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/host_counter_hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>

#include "analysis/thresholds/host.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

/// A packet counter, per interface or per CPU; the most significant one comes first.
struct PacketCounter {
  std::string_view name;
  bool by_interface = false;
  double per_second = 0;  // smallest notable rate
  std::string_view what;
};

constexpr std::array kPacketCounters = {
    PacketCounter{"net_rx_drops", true, kHostPacketsPerSecond, "received packets dropped"},
    PacketCounter{"net_rx_errors", true, kHostPacketsPerSecond, "errors in receiving packets"},
    PacketCounter{"net_tx_drops", true, kHostPacketsPerSecond, "packets dropped instead of sent"},
    PacketCounter{"net_tx_errors", true, kHostPacketsPerSecond, "errors in sending packets"},
    PacketCounter{"softnet_drops", false, kHostPacketsPerSecond, "packets dropped from a CPU's full queue"},
    PacketCounter{"softnet_squeezes", false, kSqueezesPerSecond,
                  "turns of receiving that ended with packets still in the queue"},
};

/// Memory waits of some processes, or, if a recording lacks those, of all processes at once.
struct Pressure {
  std::string_view name;
  std::string_view who;
  std::string_view line;
};

constexpr std::array kMemoryPressures = {Pressure{"pressure_memory_some_us", "processes", "some"},
                                         Pressure{"pressure_memory_full_us", "all processes", "full"}};

void add_pressure(const AnalysisContext& context, NodeId node, const IntervalSet& times, std::vector<Evidence>& lines) {
  for (const Pressure& pressure : kMemoryPressures) {
    for (const HostRise& rise : context.evidence.host().rises(node, pressure.name, times)) {
      const auto waited_ns = std::llround(rise.inside * kNsPerUs);
      if (share_of(waited_ns, times.total_ns()) >= kMemoryPressureShare) {
        lines.push_back({"host_sample",
                         waited_ns / kNsPerMs,
                         fmt::format("during the stalls {} on {} waited for memory for {} of {} (PSI {})", pressure.who,
                                     context.cluster.node_name(node), format_duration(waited_ns),
                                     format_duration(times.total_ns()), pressure.line),
                         {}});
        return;
      }
    }
  }
}

/// The times, each extended by kHostCounterAroundNs.
IntervalSet widened(const IntervalSet& times) {
  std::vector<Interval> wider;
  for (const Interval& time : times.intervals()) {
    wider.push_back({time.from_ns - kHostCounterAroundNs, time.to_ns + kHostCounterAroundNs});
  }
  return IntervalSet(std::move(wider));
}

double per_second(double count, int64_t time_ns) {
  return time_ns > 0 ? count * static_cast<double>(kNsPerSecond) / static_cast<double>(time_ns) : 0;
}

void add_counter(const AnalysisContext& context, NodeId node, const PacketCounter& counter, const IntervalSet& around,
                 std::vector<Evidence>& lines) {
  const HostEvidence& host = context.evidence.host();
  std::vector<HostRise> rises = host.rises(node, counter.name, around);
  if (!counter.by_interface && !rises.empty()) {
    for (size_t i = 1; i < rises.size(); ++i) {
      rises[0].inside += rises[i].inside;
      rises[0].outside += rises[i].outside;
    }
    rises.resize(1);
  }
  for (const HostRise& rise : rises) {
    const double rate = per_second(rise.inside, around.total_ns());
    const int64_t outside_ns = host.outside_ns(around);
    if (rate < counter.per_second ||
        (outside_ns >= kHostSampleNs && rate < kHostCounterContrast * per_second(rise.outside, outside_ns))) {
      continue;
    }
    const std::string who = (counter.by_interface ? rise.detail + " of " : "") + context.cluster.node_name(node);
    const int64_t count = std::llround(rise.inside);
    lines.push_back(
        {"host_sample",
         count,
         fmt::format("around the stalls {} counted about {} {} ({})", who, count, counter.what, counter.name),
         {}});
  }
}

/// The hosts of the culprit and of both ends of the link.
std::set<NodeId> hosts_of(const AnalysisContext& context, const FaultLocation& location) {
  std::set<MemberIndex> members{location.culprit, location.src, location.dst};
  if (location.flow != kNoFlow) {
    members.insert(context.flows.flow(location.flow).owner);
    members.insert(context.flows.flow(location.flow).peer);
  }
  members.erase(kNoMember);
  std::set<NodeId> hosts;
  for (const MemberIndex member : members) {
    hosts.insert(context.cluster.member(member).node_id);
  }
  return hosts;
}

}  // namespace

std::vector<Evidence> host_counter_evidence(const AnalysisContext& context, const CauseGroup& group) {
  std::vector<Evidence> lines;
  const HostHints& hints = rule_of(group.cause).hints;
  const IntervalSet times = time_of(group);
  if (hints.memory && group.location.culprit != kNoMember) {
    add_pressure(context, context.cluster.member(group.location.culprit).node_id, times, lines);
  }
  if (hints.packets) {
    std::vector<Evidence> counters;
    const IntervalSet around = widened(times);
    const std::set<NodeId> hosts = hosts_of(context, group.location);
    for (const PacketCounter& counter : kPacketCounters) {
      for (const NodeId node : hosts) {
        add_counter(context, node, counter, around, counters);
      }
    }
    counters.resize(std::min(counters.size(), kMostHostCounters));
    std::ranges::move(counters, std::back_inserter(lines));
  }
  return lines;
}

}  // namespace stalltrace::analysis
