// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/network/drops.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "analysis/causes/network/common_location.h"
#include "analysis/causes/network/links.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr std::string_view kBacklogRemedy =
    "raise net.core.netdev_max_backlog, spread the interrupts of the network card over more CPUs (RPS, irqbalance), "
    "and keep other work off those CPUs";
constexpr std::string_view kMemoryRemedy =
    "raise the memory that TCP may use (net.ipv4.tcp_mem, tcp_rmem, the memory limit of the cgroup)";
constexpr std::string_view kQueueRemedy =
    "see the queue's limit and rate (tc -s qdisc): it is shorter than what the job sends in one burst";
constexpr std::string_view kCardRemedy = "see ethtool -S and dmesg for the network card and its driver";

constexpr std::string_view kFirewall = "look at the firewall (nft list ruleset, iptables -L -v)";
constexpr std::string_view kCgroupFilter = "look at the BPF filters of cgroups (bpftool cgroup tree)";
constexpr std::string_view kTrafficControl = "look at the filters of traffic control (tc -s filter show, tc -s qdisc)";

constexpr std::array kReasons = {
    DropReason{"NETFILTER_DROP", true, "its firewall (netfilter)", kFirewall},
    DropReason{"SOCKET_FILTER", true, "a filter on the socket", "look at the socket filters (ss -0bp)"},
    DropReason{"BPF_CGROUP_EGRESS", true, "a filter of the cgroup (BPF)", kCgroupFilter},
    DropReason{"TC_EGRESS", true, "a filter of its traffic control", kTrafficControl},
    DropReason{"TC_INGRESS", true, "a filter of its traffic control", kTrafficControl},
    DropReason{"XDP", true, "an XDP program", "look at the XDP programs (bpftool net)"},
    DropReason{"XFRM_POLICY", true, "an IPsec policy", "look at the IPsec policies (ip xfrm policy)"},
    DropReason{"SECURITY_HOOK", true, "a security module", "look at the logs of security modules (ausearch, dmesg)"},
    DropReason{"IP_RPFILTER", true, "the reverse path filter",
               "look at the routes and the reverse path filter (ip route, sysctl net.ipv4.conf.all.rp_filter)"},
    DropReason{"CPU_BACKLOG", false, "a CPU's queue of incoming packets was full", kBacklogRemedy},
    DropReason{"SOCKET_BACKLOG", false, "the socket's queue was full while its process held it", kMemoryRemedy, true},
    DropReason{"SOCKET_RCVBUFF", false, "the socket's receive buffer was full", kMemoryRemedy, true},
    DropReason{"PROTO_MEM", false, "TCP had no memory left", kMemoryRemedy, true},
    DropReason{"NOMEM", false, "there was no memory for the packet", kMemoryRemedy},
    DropReason{"PFMEMALLOC", false, "there was no memory for the packet", kMemoryRemedy},
    DropReason{"TCP_OFO_DROP", false, "TCP had no memory left for segments out of order", kMemoryRemedy, true},
    DropReason{"TCP_OFO_QUEUE_PRUNE", false, "TCP had no memory left for segments out of order", kMemoryRemedy, true},
    DropReason{"QDISC_DROP", false, "the queue of its network interface (qdisc) was full", kQueueRemedy},
    DropReason{"QDISC_OVERLIMIT", false, "the queue of its network interface (qdisc) was full", kQueueRemedy},
    DropReason{"QDISC_CONGESTED", false, "the queue of its network interface (qdisc) was congested", kQueueRemedy},
    DropReason{"FULL_RING", false, "the ring of its network device was full", kCardRemedy},
    DropReason{"DEV_READY", false, "its network device was not ready", kCardRemedy},
    DropReason{"TCP_CSUM", false, "the packet's checksum was wrong", kCardRemedy},
    DropReason{"IP_CSUM", false, "the packet's checksum was wrong", kCardRemedy},
    DropReason{"SKB_CSUM", false, "the packet's checksum was wrong", kCardRemedy},
    DropReason{"", false, "the kernel's reason names a fault of this host", kCardRemedy},
};

using DroppedPackets = std::map<std::tuple<MemberIndex, bool, std::string>, int64_t>;  // by host, way in, reason

/// The first step is what dropped most by a rule; `any_reason`: or by a fault of the host.
DropSide describe_drops(const AnalysisContext& context, const DroppedPackets& packets, bool any_reason) {
  DropSide side;
  int64_t most = 0;
  for (const auto& [key, count] : packets) {
    const auto& [host, incoming, reason] = key;
    const DropReason& known = drop_reason(reason);
    side.evidence.push_back(
        {"packet_drop",
         count,
         fmt::format("{} dropped inside the host of {}, on the way {}: {}, {}", count_of(count, "packet"),
                     short_name(context.cluster, host), incoming ? "in" : "out", known.what, reason),
         {}});
    if ((known.rule || any_reason) && count > most) {
      most = count;
      side.first_step = fmt::format("on {}, {}", context.cluster.member(host).node, known.remedy);
    }
  }
  return side;
}

}  // namespace

const DropReason& drop_reason(std::string_view name) {
  const auto found = std::ranges::find(kReasons, name, &DropReason::name);
  return found == kReasons.end() ? kReasons.back() : *found;
}

std::vector<LinkDrop> link_drops(const AnalysisContext& context, FlowIndex index, const IntervalSet& times) {
  std::vector<LinkDrop> found;
  const Flow& flow = context.flows.flow(index);
  const auto add = [&](FlowIndex end, bool incoming) {
    for (DropSum& sum : end == kNoFlow ? std::vector<DropSum>() : context.evidence.host().drops(end, times)) {
      if (sum.incoming == incoming) {
        found.push_back({context.flows.flow(end).owner, incoming, std::move(sum)});
      }
    }
  };
  add(index, false);
  add(flow.reverse, true);
  std::sort(found.begin(), found.end(),
            [](const LinkDrop& a, const LinkDrop& b) { return a.sum.packets > b.sum.packets; });
  return found;
}

int64_t repeated_bytes(const AnalysisContext& context, FlowIndex flow, Interval window) {
  int64_t bytes = 0;
  for (const Retransmit& segment : context.evidence.retransmits(flow, window)) {
    bytes += segment.len;
  }
  return bytes;
}

DropSide drop_side(const AnalysisContext& context, const CauseGroup& group) {
  const Flow& sample = context.flows.flow(group.location.flow);
  const MemberIndex culprit = group.location.culprit;
  const IntervalSet times = time_of(group);
  DroppedPackets packets;
  std::set<NodeId> hosts;
  bool all_ends = true;
  for (FlowIndex i = 0; i < context.flows.all().size(); ++i) {
    const Flow& flow = context.flows.flow(i);
    const bool same = group.location.node       ? is_link_of_node(context, group.location, flow)
                      : culprit == kNoMember    ? flow.owner == sample.owner && flow.peer == sample.peer
                      : culprit == sample.owner ? flow.owner == culprit
                                                : flow.peer == culprit;
    if (!flow.carries_collectives || !same) {
      continue;
    }
    hosts.insert(flow.node_id);
    all_ends = all_ends && flow.reverse != kNoFlow;
    if (flow.reverse != kNoFlow) {
      hosts.insert(context.flows.flow(flow.reverse).node_id);
    }
    for (const LinkDrop& drop : link_drops(context, i, times)) {
      packets[{drop.host, drop.incoming, drop.sum.reason}] += drop.sum.packets;
    }
  }
  DropSide side = describe_drops(context, packets, false);
  const bool counted = !hosts.empty() && std::all_of(hosts.begin(), hosts.end(), [&](NodeId node) {
    return context.evidence.host().counts_drops(node);
  });
  if (side.evidence.empty() && counted) {
    side.evidence.push_back(
        {"packet_drop",
         0,
         all_ends ? "neither host dropped any: the packets were lost on the network between them"
                  : "the sender's host dropped none, so that they left it; the receiver's host was not recorded",
         {}});
  }
  return side;
}

DropSide own_drops(const AnalysisContext& context, const CauseGroup& group) {
  const IntervalSet times = time_of(group);
  DroppedPackets packets;
  for (const FlowIndex i : context.flows.of(group.stalls.front()->members)) {
    const Flow& flow = context.flows.flow(i);
    if (!flow.carries_collectives) {
      continue;
    }
    for (const DropSum& sum : context.evidence.host().drops(i, times)) {
      packets[{flow.owner, sum.incoming, sum.reason}] += sum.packets;
    }
  }
  return describe_drops(context, packets, true);
}

LossTotals loss_totals(const AnalysisContext& context, const CauseGroup& group) {
  const IntervalSet times = time_of(group);
  LossTotals totals{.time_ns = times.total_ns()};
  std::vector<Interval> recovery;
  for (const FlowIndex flow : group.flows) {
    for (const Interval& time : times.intervals()) {
      const FlowLoss loss = context.evidence.loss(flow, time);
      totals.retransmits += loss.retransmits;
      totals.timeouts += loss.timeouts;
      totals.early_timeouts += loss.early_timeouts;
      context.evidence.recovery_intervals(flow).clip(time, recovery);
    }
  }
  totals.recovery_ns = IntervalSet(std::move(recovery)).total_ns();
  return totals;
}

}  // namespace stalltrace::analysis
