// SPDX-License-Identifier: Apache-2.0
// packet_loss: connections of a link recover from loss while peers wait. All evidence is the sender's: its
// recovery states, its timeouts and the silence before them, its retransmissions. Counts alone prove nothing.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "analysis/causes/cause.h"
#include "analysis/causes/network/ack_gap.h"
#include "analysis/causes/network/common_location.h"
#include "analysis/causes/network/drops.h"
#include "analysis/causes/network/links.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/gates.h"
#include "analysis/thresholds/network.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

enum class Counted : uint8_t { kRetransmits };

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  if (stall.part() != StallPart::kTransfer) {
    return;
  }
  struct Link {
    Hypothesis hypothesis;
    std::vector<Interval> covered;
    int64_t most_ns = -1;
  };
  std::map<std::tuple<MemberIndex, MemberIndex, std::string>, Link> links;
  for (const FlowIndex i : flows_of(context, stall)) {
    const AckGap silence = context.evidence.silence(i, stall.examined());
    if (silence.backoff >= kSilentBackoff && !merely_lossy(context, i, silence) &&
        share_of(intersect(silence.time, stall.examined()).length(), stall.to_explain_ns()) >= kCoverage) {
      continue;  // no data arrives: more than loss
    }
    const FlowLoss loss = context.evidence.loss(i, stall.examined());
    if (loss.covered_ns == 0) {
      continue;
    }
    if (context.evidence.repeats_needlessly(i, stall.examined())) {
      continue;  // nothing was lost: an acknowledgement came late
    }
    const FaultLocation location = link_of(context.flows, i);
    Link& link = links[{location.src, location.dst, location.far_end}];
    context.evidence.loss_intervals(i).clip(stall.examined(), link.covered);
    if (loss.covered_ns > link.most_ns) {
      link.most_ns = loss.covered_ns;
      link.hypothesis.location = location;
    }
    link.hypothesis.flows.push_back(i);
    if (loss.first_event != 0) {
      link.hypothesis.counters.at(Counted::kRetransmits).events.push_back(loss.first_event);
    }
  }
  for (auto& [key, link] : links) {
    const int64_t covered_ns = IntervalSet(std::move(link.covered)).total_ns();
    link.hypothesis.cause = Cause::kPacketLoss;
    link.hypothesis.coverage = share_of(covered_ns, stall.to_explain_ns());
    link.hypothesis.applies = link.hypothesis.coverage >= kCoverage;
    const Flow& flow = context.flows.flow(link.hypothesis.location.flow);
    link.hypothesis.why =
        fmt::format("{} to {} recovered from loss for {} of {}", format_endpoint(flow.src), format_endpoint(flow.dst),
                    format_duration(covered_ns), format_duration(stall.to_explain_ns()));
    out.push_back(std::move(link.hypothesis));
  }
}

/// A host, and the direction of what passes it.
struct HostSide {
  NodeId host = 0;
  bool incoming = false;
};

/// The rank of the host, and the one on another node, that a flow joins in that direction; nullopt: it joins none.
std::optional<std::pair<MemberIndex, MemberIndex>> ends_of(const AnalysisContext& context, const Flow& flow,
                                                           const HostSide& side) {
  const MemberIndex near = side.incoming ? flow.peer : flow.owner;
  const MemberIndex far = side.incoming ? flow.owner : flow.peer;
  const bool passes = node_of(context, near) == side.host && far != kNoMember && node_of(context, far) != side.host;
  return passes ? std::optional(std::pair(near, far)) : std::nullopt;
}

/// The packets that rules of a host (a firewall) dropped in one direction, for one of the kernel's reasons.
struct RuleDrops {
  uint64_t group_bytes = 0;                                        // of the group's connections
  std::map<NodeId, int64_t> by_node;                               // by who sent them, or was sent them
  std::map<std::pair<MemberIndex, MemberIndex>, int64_t> by_ends;  // by the rank of the host, and the other one
};

using RuleDropsByReason = std::map<std::string, RuleDrops>;

/// From the first stall to the last.
IntervalSet span_of(const IntervalSet& times) {
  const std::vector<Interval>& all = times.intervals();
  return all.empty() ? IntervalSet() : IntervalSet({{all.front().from_ns, all.back().to_ns}});
}

/// Whose packets a rule drops shows between the group's stalls as well. `flows`: those with drops by rules.
RuleDropsByReason rule_drops(const AnalysisContext& context, const CauseGroup& group, const HostSide& side,
                             const std::vector<FlowIndex>& flows) {
  RuleDropsByReason drops;
  const IntervalSet times = time_of(group);
  const IntervalSet span = span_of(times);
  const auto by_rule = [&](const LinkDrop& drop) {
    return drop.incoming == side.incoming && node_of(context, drop.host) == side.host &&
           drop_reason(drop.sum.reason).rule;
  };
  for (const FlowIndex i : flows) {
    const auto ends = ends_of(context, context.flows.flow(i), side);
    if (!ends) {
      continue;
    }
    for (const LinkDrop& drop : link_drops(context, i, span)) {
      if (by_rule(drop)) {
        RuleDrops& rule = drops[drop.sum.reason];
        rule.by_node[context.cluster.member(ends->second).node_id] += drop.sum.packets;
        rule.by_ends[*ends] += drop.sum.packets;
      }
    }
    for (const LinkDrop& drop : group.flows.contains(i) ? link_drops(context, i, times) : std::vector<LinkDrop>()) {
      drops[drop.sum.reason].group_bytes += by_rule(drop) ? drop.sum.bytes : 0;
    }
  }
  return drops;
}

/// True if the number of packets shows that a rule is meant for them. A stray one, as a firewall takes for invalid,
/// does not. Packets count, since an acknowledgement has few bytes. `all`: those that the rule dropped, by sender or
/// receiver.
template <typename Key>
bool hits(int64_t packets, const std::map<Key, int64_t>& all) {
  const auto most = std::ranges::max_element(all, {}, [](const auto& entry) { return entry.second; });
  return packets > 1 && share_of(packets, most->second) >= kLinkShare;
}

bool hits_several_nodes(const RuleDrops& rule) {
  return std::ranges::count_if(rule.by_node, [&](const auto& entry) { return hits(entry.second, rule.by_node); }) >=
         kLinksForCulprit;
}

/// True if the ranks of the job are on two nodes.
bool has_two_nodes(const AnalysisContext& context) {
  std::set<NodeId> nodes;
  for (const Member& member : context.cluster.members()) {
    if (member.rank && context.concerns(member)) {
      nodes.insert(member.node_id);
    }
  }
  return nodes.size() == 2;
}

/// True if several ranks of the host have connections with other nodes, and the rule dropped packets of each, in that
/// direction and the group's time: it is not for some of them.
bool hits_all_ranks(const AnalysisContext& context, const CauseGroup& group, const HostSide& side,
                    const RuleDrops& rule) {
  const std::vector<Interval>& lost = group.lost.intervals();
  std::set<std::pair<MemberIndex, MemberIndex>> all;
  std::set<MemberIndex> near;
  for (const Flow& flow : context.flows.all()) {
    const auto ends = ends_of(context, flow, side);
    if (ends && flow.carries_collectives && flow.opened_ns < lost.back().to_ns &&
        flow.closed_ns > lost.front().from_ns) {
      all.insert(*ends);
      near.insert(ends->first);
    }
  }
  return near.size() > 1 && std::ranges::all_of(all, [&](const auto& ends) {
           const auto dropped = rule.by_ends.find(ends);
           return dropped != rule.by_ends.end() && hits(dropped->second, rule.by_ends);
         });
}

/// A host with a rule that drops what several other nodes send it, or what it sends to them, is to blame, however many
/// of its links show the loss: lost acknowledgements need not cost anything. With one other node, a rule that hits all
/// connections of several ranks with that.
void blame_dropping_host(const AnalysisContext& context, const std::vector<FlowIndex>& flows, bool two_nodes,
                         CauseGroup& group) {
  int64_t repeated = 0;
  const IntervalSet times = time_of(group);
  for (const FlowIndex flow : group.flows) {
    for (const Interval& time : times.intervals()) {
      repeated += repeated_bytes(context, flow, time);
    }
  }
  for (const MemberIndex end : {group.location.dst, group.location.src}) {
    const std::optional<NodeId> host = node_of(context, end);
    if (!host || group.location.at_one_end()) {
      continue;
    }
    const HostSide side{*host, end == group.location.dst};
    const RuleDropsByReason drops = rule_drops(context, group, side, flows);
    const bool blamed = std::ranges::any_of(drops, [&](const auto& entry) {
      const RuleDrops& rule = entry.second;
      return share_of(static_cast<int64_t>(rule.group_bytes), repeated) >= kDroppedShare &&
             (hits_several_nodes(rule) || (two_nodes && hits_all_ranks(context, group, side, rule)));
    });
    if (blamed) {
      blame_end(context, end, group.location);
    }
  }
}

/// The flows of which a host dropped packets by its own rules, from the first of the groups' stalls to the last.
std::vector<FlowIndex> flows_with_rule_drops(const AnalysisContext& context, const std::vector<CauseGroup>& groups) {
  std::vector<Interval> all;
  for (const CauseGroup& group : groups) {
    const IntervalSet times = time_of(group);
    all.insert(all.end(), times.intervals().begin(), times.intervals().end());
  }
  const IntervalSet span = span_of(IntervalSet(std::move(all)));
  std::vector<FlowIndex> flows;
  for (FlowIndex i = 0; i < context.flows.all().size(); ++i) {
    const std::vector<LinkDrop> drops = link_drops(context, i, span);
    if (std::ranges::any_of(drops, [](const LinkDrop& drop) { return drop_reason(drop.sum.reason).rule; })) {
      flows.push_back(i);
    }
  }
  return flows;
}

/// Joins groups that blame one end for what passes it in one direction. The most expensive one's link is the example.
void join_blamed(const AnalysisContext& context, std::vector<CauseGroup>& groups) {
  std::ranges::stable_sort(groups, std::greater{}, [](const CauseGroup& group) { return group.lost.total_ns(); });
  std::map<std::tuple<MemberIndex, std::optional<NodeId>, bool>, size_t> first;
  for (size_t i = 0; i < groups.size(); ++i) {
    const FaultLocation& location = groups[i].location;
    if (!location.at_one_end()) {
      continue;
    }
    const bool incoming = location.node ? is_incoming(context, location) : location.culprit == location.dst;
    const auto [found, fresh] = first.try_emplace({location.culprit, location.node, incoming}, i);
    if (!fresh) {
      merge(groups[found->second], std::move(groups[i]));
      groups[i].stalls.clear();
    }
  }
  std::erase_if(groups, [](const CauseGroup& group) { return group.stalls.empty(); });
}

void refine(const AnalysisContext& context, std::vector<CauseGroup>& groups) {
  join_by_location(context, groups);
  const std::vector<FlowIndex> flows = flows_with_rule_drops(context, groups);
  if (flows.empty()) {
    return;
  }
  const bool two_nodes = has_two_nodes(context);
  for (CauseGroup& group : groups) {
    blame_dropping_host(context, flows, two_nodes, group);
  }
  join_blamed(context, groups);
}

/// The member through which a lesser loss is the echo of a greater one, or kNoMember. A node that loses incoming
/// packets also loses the acknowledgements of what it sends, so that its outgoing link seems to lose a little; for
/// outgoing packets the reverse holds. Links between the same two nodes distinguish them only if one is known to be at
/// fault.
MemberIndex echo_at(const AnalysisContext& context, const CauseGroup& greater, const CauseGroup& lesser) {
  if (static_cast<double>(lesser.lost.total_ns()) > kEchoShare * static_cast<double>(greater.lost.total_ns())) {
    return kNoMember;
  }
  const FaultLocation& great = greater.location;
  const FaultLocation& less = lesser.location;
  const auto same = [&](MemberIndex a, MemberIndex b) { return on_one_node(context, a, b); };
  const auto blamed = [&](MemberIndex end) {
    return great.culprit == end || (great.node && great.node == node_of(context, end));
  };
  if (same(less.src, great.dst) && (blamed(great.dst) || !same(less.dst, great.src))) {
    return great.dst;
  }
  return same(less.dst, great.src) && (blamed(great.src) || !same(less.src, great.dst)) ? great.src : kNoMember;
}

/// An echo is part of the greater loss; if it is large enough, it proves that the node is at fault, not the link.
Subsumption subsumed_by(const SubsumptionQuery& query) {
  if (query.by.cause != Cause::kPacketLoss) {
    return {};
  }
  const MemberIndex member = echo_at(query.context, query.by, query.group);
  FaultLocation& greater = query.by.location;
  if (member == kNoMember || (greater.culprit != kNoMember && greater.culprit != member) ||
      (greater.node && greater.node != node_of(query.context, member))) {
    return {};
  }
  const int64_t lesser_ns = query.group.lost.total_ns();
  const bool proves =
      lesser_ns >= kPacketLossGate.total_ns || share_of(lesser_ns, query.by.lost.total_ns()) >= kLinkShare;
  if (proves && !greater.at_one_end()) {
    blame_end(query.context, member, greater);
  }
  return {.kind = Subsumption::Kind::kMerge};
}

std::string timeouts_text(const LossTotals& totals) {
  if (totals.timeouts == 0) {
    return {};
  }
  const std::string early =
      totals.early_timeouts == 0 ? "" : fmt::format(", but {} of them after less", totals.early_timeouts);
  return fmt::format(", with {} or late probes (200 ms of silence or more each{})",
                     count_of(totals.timeouts, "retransmission timeout"), early);
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const Flow& flow = context.flows.flow(group.location.flow);
  const LossTotals totals = loss_totals(context, group);
  DropSide side = drop_side(context, group);
  const bool node = group.location.at_one_end();
  const std::string where = direction_text(context, group.location);
  finding.summary = fmt::format("Packets are lost on the way {}: {} while TCP repeated them.", where, cost_text(group));
  finding.link = LinkEndpoints{flow.src_rank, flow.dst_rank, flow.src, flow.dst};
  finding.evidence.push_back(
      {"tcp_retransmit_skb", totals.retransmits,
       fmt::format("{} by the sender {} -> {} during the stalls", count_of(totals.retransmits, "retransmission"),
                   format_endpoint(flow.src), format_endpoint(flow.dst)),
       group.counters.sum(Counted::kRetransmits).events});
  finding.evidence.push_back(
      {"tcp_cong_state_set",
       totals.timeouts,
       fmt::format(
           "TCP was in recovery for {} of the {} that these transfers took{}: {:.0f} % of the lost time is covered",
           format_duration(totals.recovery_ns), format_duration(totals.time_ns), timeouts_text(totals),
           100 * group.coverage),
       {}});
  std::ranges::move(side.evidence, std::back_inserter(finding.evidence));
  const std::string path =
      node ? fmt::format(
                 "check the network port of {}: its cable or optics, NIC and switch-port error and drop counters "
                 "(ethtool -S)",
                 finding.culprit->node)
           : fmt::format(
                 "check the path {} -> {}: error and drop counters of both NICs and of the switch ports "
                 "(ethtool -S)",
                 flow.src.address, flow.dst.address);
  finding.remedy = side.first_step.empty()
                       ? fmt::format("{}, {}", path,
                                     node ? "its firewall or traffic shaping"
                                          : "firewall rules on either end that drop part of the traffic")
                       : fmt::format("{}; if the loss goes on, {}", side.first_step, path);
}

}  // namespace

extern const CauseRule kPacketLossRule{
    .cause = Cause::kPacketLoss,
    .gate = kPacketLossGate,
    .needs = "no connection between its ranks recovered from loss or repeated segments in that time",
    .judge = judge,
    .refine = refine,
    .describe = describe,
    .subsumed_by = subsumed_by,
    .hints = {.packets = true}};

}  // namespace stalltrace::analysis
