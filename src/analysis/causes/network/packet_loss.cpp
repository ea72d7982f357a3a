// SPDX-License-Identifier: Apache-2.0
// packet_loss: connections of a link recover from loss while peers wait. All evidence is the sender's: its
// recovery states, its timeouts and the silence before them, its retransmissions. Counts alone prove nothing.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

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

/// Of the packets that a host's own rules (a firewall) dropped at one end of a link: how many bytes of the group's, and
/// whose packets.
struct RuleDrops {
  uint64_t group_bytes = 0;
  std::set<MemberIndex> near;  // ranks of the host
  std::set<NodeId> far;        // nodes that sent, or were sent, the packets
};

RuleDrops rule_drops(const AnalysisContext& context, const CauseGroup& group, NodeId host, bool incoming) {
  RuleDrops drops;
  const IntervalSet times = time_of(group);
  for (FlowIndex i = 0; i < context.flows.all().size(); ++i) {
    const Flow& flow = context.flows.flow(i);
    const MemberIndex near = incoming ? flow.peer : flow.owner;
    const std::optional<NodeId> far = node_of(context, incoming ? flow.owner : flow.peer);
    if (node_of(context, near) != host || !far || far == host) {
      continue;
    }
    for (const LinkDrop& drop : link_drops(context, i, times)) {
      if (drop.incoming == incoming && node_of(context, drop.host) == host && drop_reason(drop.sum.reason).rule) {
        drops.near.insert(near);
        drops.far.insert(*far);
        drops.group_bytes += group.flows.contains(i) ? drop.sum.bytes : 0;
      }
    }
  }
  return drops;
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

/// A host whose own rules drop what several other nodes send it, or what it sends to them, is to blame, however many of
/// its links show the loss: lost acknowledgements need not cost anything. With one other node, what several of its own
/// ranks exchange with that.
void blame_dropping_host(const AnalysisContext& context, CauseGroup& group) {
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
    const RuleDrops drops = rule_drops(context, group, *host, end == group.location.dst);
    const bool several = static_cast<int>(drops.far.size()) >= kLinksForCulprit;
    if (share_of(static_cast<int64_t>(drops.group_bytes), repeated) >= kDroppedShare &&
        (several || (drops.near.size() > 1 && has_two_nodes(context)))) {
      blame_end(context, end, group.location);
    }
  }
}

void refine(const AnalysisContext& context, std::vector<CauseGroup>& groups) {
  join_by_location(context, groups);
  for (CauseGroup& group : groups) {
    blame_dropping_host(context, group);
  }
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
