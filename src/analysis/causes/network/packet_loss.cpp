// SPDX-License-Identifier: Apache-2.0
// packet_loss: connections of a link recover from loss while peers wait. All evidence is the sender's: its
// recovery states, its timeouts and the silence before them, its retransmissions. Counts alone prove nothing.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "analysis/causes/cause.h"
#include "analysis/causes/network/ack_gap.h"
#include "analysis/causes/network/drops.h"
#include "analysis/causes/network/links.h"
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

/// If several lossy links share one end, that end is the culprit: their groups become one.
void blame_common_end(std::vector<CauseGroup>& groups, MemberIndex FaultLocation::*end,
                      MemberIndex FaultLocation::*other) {
  std::map<MemberIndex, int64_t> costliest;
  for (const CauseGroup& group : groups) {
    if (group.location.*end != kNoMember && group.location.culprit == kNoMember) {
      costliest[group.location.*end] = std::max(costliest[group.location.*end], group.lost.total_ns());
    }
  }
  for (const auto& [member, most_ns] : costliest) {
    std::set<MemberIndex> far_ends;
    std::vector<size_t> same;
    for (size_t i = 0; i < groups.size(); ++i) {
      if (groups[i].location.*end == member && groups[i].location.culprit == kNoMember &&
          share_of(groups[i].lost.total_ns(), most_ns) >= kLinkShare) {
        far_ends.insert(groups[i].location.*other);
        same.push_back(i);
      }
    }
    if (static_cast<int>(far_ends.size()) < kLinksForCulprit) {
      continue;
    }
    std::sort(same.begin(), same.end(),
              [&](size_t a, size_t b) { return groups[a].lost.total_ns() > groups[b].lost.total_ns(); });
    CauseGroup& first = groups[same[0]];
    first.location.culprit = member;
    for (size_t i = 1; i < same.size(); ++i) {
      merge(first, std::move(groups[same[i]]));
      groups[same[i]].stalls.clear();
    }
    std::erase_if(groups, [](const CauseGroup& group) { return group.stalls.empty(); });
  }
}

/// The member through which a lesser loss is the echo of a greater one, or kNoMember. A node that loses incoming
/// packets also loses the acknowledgements of what it sends, so that its outgoing link seems to lose a little; for
/// outgoing packets the reverse holds.
MemberIndex echo_at(const CauseGroup& greater, const CauseGroup& lesser) {
  if (static_cast<double>(lesser.lost.total_ns()) > kEchoShare * static_cast<double>(greater.lost.total_ns())) {
    return kNoMember;
  }
  if (lesser.location.src == greater.location.dst && lesser.location.dst != greater.location.src) {
    return greater.location.dst;
  }
  return lesser.location.dst == greater.location.src && lesser.location.src != greater.location.dst
             ? greater.location.src
             : kNoMember;
}

/// An echo is part of the greater loss; if it is large enough, it proves that the node is at fault, not the link.
Subsumption subsumed_by(const SubsumptionQuery& query) {
  if (query.by.cause != Cause::kPacketLoss) {
    return {};
  }
  const MemberIndex member = echo_at(query.by, query.group);
  if (member == kNoMember || (query.by.location.culprit != kNoMember && query.by.location.culprit != member)) {
    return {};
  }
  const int64_t lesser_ns = query.group.lost.total_ns();
  if (lesser_ns >= kPacketLossGate.total_ns || share_of(lesser_ns, query.by.lost.total_ns()) >= kLinkShare) {
    query.by.location.culprit = member;
  }
  return {.kind = Subsumption::Kind::kMerge};
}

void refine(const AnalysisContext&, std::vector<CauseGroup>& groups) {
  blame_common_end(groups, &FaultLocation::dst, &FaultLocation::src);
  blame_common_end(groups, &FaultLocation::src, &FaultLocation::dst);
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const Flow& flow = context.flows.flow(group.location.flow);
  const LossTotals totals = loss_totals(context, group);
  DropSide side = drop_side(context, group);
  const std::string source = context.cluster.describe(group.location.src);
  const std::string target = group.location.dst == kNoMember
                                 ? fmt::format("{} (not recorded)", format_endpoint(flow.dst))
                                 : context.cluster.describe(group.location.dst);
  const bool node = group.location.culprit != kNoMember;
  const std::string where = node
                                ? fmt::format("{} {}", group.location.culprit == group.location.dst ? "into" : "out of",
                                              context.cluster.describe(group.location.culprit))
                                : fmt::format("from {} to {}", source, target);
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
           format_duration(totals.recovery_ns), format_duration(totals.time_ns),
           totals.timeouts == 0 ? std::string()
                                : fmt::format(", with {} or late probes (200 ms of silence or more each)",
                                              count_of(totals.timeouts, "retransmission timeout")),
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
