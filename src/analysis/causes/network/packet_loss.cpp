// SPDX-License-Identifier: Apache-2.0
// packet_loss: connections of a link recover from loss while peers wait. All evidence is the sender's: its
// recovery states, its timeouts and the silence before them, its retransmissions. Counts alone prove nothing.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analysis/causes/cause.h"
#include "analysis/causes/network/ack_gap.h"
#include "analysis/causes/network/drops.h"
#include "analysis/causes/network/links.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr const char* kRetransmits = "retransmits";
constexpr const char* kTimeouts = "timeouts";
constexpr const char* kRecovery = "recovery";

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
      continue;  // nothing gets through: more than loss
    }
    const FlowLoss loss = context.evidence.loss(i, stall.examined());
    if (loss.covered_ns == 0) {
      continue;
    }
    if (context.evidence.repeats_needlessly(i, stall.examined())) {
      continue;  // nothing was lost: an acknowledgement came late
    }
    const Place place = link_of(context.flows, i);
    Link& link = links[{place.src, place.dst, place.far_end}];
    context.evidence.loss_intervals(i).clip(stall.examined(), link.covered);
    if (loss.covered_ns > link.most_ns) {
      link.most_ns = loss.covered_ns;
      link.hypothesis.place = place;
    }
    link.hypothesis.counters[{kRetransmits, ""}].count += loss.retransmits;
    if (loss.first_event != 0) {
      link.hypothesis.counters[{kRetransmits, ""}].events.push_back(loss.first_event);
    }
    link.hypothesis.counters[{kTimeouts, ""}].count += loss.timeouts;
    link.hypothesis.counters[{kRecovery, ""}].time_ns += loss.recovery_ns;
  }
  for (auto& [key, link] : links) {
    const int64_t covered_ns = IntervalSet(std::move(link.covered)).total_ns();
    link.hypothesis.cause = Cause::kPacketLoss;
    link.hypothesis.coverage = share_of(covered_ns, stall.to_explain_ns());
    link.hypothesis.applies = link.hypothesis.coverage >= kCoverage;
    const Flow& flow = context.flows.flow(link.hypothesis.place.flow);
    link.hypothesis.why =
        fmt::format("{} to {} recovered from loss for {} of {}", format_endpoint(flow.src), format_endpoint(flow.dst),
                    format_duration(covered_ns), format_duration(stall.to_explain_ns()));
    out.push_back(std::move(link.hypothesis));
  }
}

/// One end of several lossy links is the culprit: groups that share it become one.
void blame_common_end(std::vector<CauseGroup>& groups, MemberIndex Place::*end, MemberIndex Place::*other) {
  std::map<MemberIndex, int64_t> costliest;
  for (const CauseGroup& group : groups) {
    if (group.place.*end != kNoMember && group.place.culprit == kNoMember) {
      costliest[group.place.*end] = std::max(costliest[group.place.*end], group.lost.total_ns());
    }
  }
  for (const auto& [member, most_ns] : costliest) {
    std::set<MemberIndex> far_ends;
    std::vector<size_t> same;
    for (size_t i = 0; i < groups.size(); ++i) {
      if (groups[i].place.*end == member && groups[i].place.culprit == kNoMember &&
          share_of(groups[i].lost.total_ns(), most_ns) >= kLinkShare) {
        far_ends.insert(groups[i].place.*other);
        same.push_back(i);
      }
    }
    if (static_cast<int>(far_ends.size()) < kLinksForCulprit) {
      continue;
    }
    std::sort(same.begin(), same.end(),
              [&](size_t a, size_t b) { return groups[a].lost.total_ns() > groups[b].lost.total_ns(); });
    CauseGroup& first = groups[same[0]];
    first.place.culprit = member;
    for (size_t i = 1; i < same.size(); ++i) {
      merge(first, std::move(groups[same[i]]));
      groups[same[i]].stalls.clear();
    }
    std::erase_if(groups, [](const CauseGroup& group) { return group.stalls.empty(); });
  }
}

/// The member through which a lesser loss is the echo of a greater one, or kNoMember. A node that loses what comes in
/// loses the acknowledgements of what it sends, too, so that its outgoing link seems to lose a little; and the other
/// way round for what goes out.
MemberIndex echo_at(const CauseGroup& greater, const CauseGroup& lesser) {
  if (static_cast<double>(lesser.lost.total_ns()) > kEchoShare * static_cast<double>(greater.lost.total_ns())) {
    return kNoMember;
  }
  if (lesser.place.src == greater.place.dst && lesser.place.dst != greater.place.src) {
    return greater.place.dst;
  }
  return lesser.place.dst == greater.place.src && lesser.place.src != greater.place.dst ? greater.place.src : kNoMember;
}

void fold_echoes(std::vector<CauseGroup>& groups) {
  std::sort(groups.begin(), groups.end(),
            [](const CauseGroup& a, const CauseGroup& b) { return a.lost.total_ns() > b.lost.total_ns(); });
  for (size_t i = 0; i < groups.size(); ++i) {
    for (size_t j = groups.size() - 1; j > i; --j) {
      const MemberIndex member = echo_at(groups[i], groups[j]);
      const bool fits = groups[i].place.culprit == kNoMember || groups[i].place.culprit == member;
      if (member == kNoMember || !fits) {
        continue;
      }
      const int64_t lesser_ns = groups[j].lost.total_ns();
      if (lesser_ns >= kPacketLossGate.total_ns || share_of(lesser_ns, groups[i].lost.total_ns()) >= kLinkShare) {
        groups[i].place.culprit = member;  // enough of an echo to tell the node from the link
      }
      merge(groups[i], std::move(groups[j]));
      groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(j));
    }
  }
}

void refine(const AnalysisContext&, std::vector<CauseGroup>& groups) {
  blame_common_end(groups, &Place::dst, &Place::src);
  blame_common_end(groups, &Place::src, &Place::dst);
  fold_echoes(groups);
}

void tell(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const Flow& flow = context.flows.flow(group.place.flow);
  const EvidenceCounter retransmits = tally_of(group.counters, kRetransmits);
  const EvidenceCounter timeouts = tally_of(group.counters, kTimeouts);
  const EvidenceCounter recovery = tally_of(group.counters, kRecovery);
  const std::string source = context.cluster.describe(group.place.src);
  const std::string target = group.place.dst == kNoMember ? fmt::format("{} (not recorded)", format_endpoint(flow.dst))
                                                          : context.cluster.describe(group.place.dst);
  const bool node = group.place.culprit != kNoMember;
  const std::string where = node ? fmt::format("{} {}", group.place.culprit == group.place.dst ? "into" : "out of",
                                               context.cluster.describe(group.place.culprit))
                                 : fmt::format("from {} to {}", source, target);
  finding.summary = fmt::format("Packets are lost on the way {}: {} while TCP repeated them.", where, cost_text(group));
  finding.link = LinkPlace{flow.src_rank, flow.dst_rank, flow.src, flow.dst};
  finding.evidence.push_back(
      {"tcp_retransmit_skb", retransmits.count,
       fmt::format("{} by the sender {} -> {} during the stalls", count_of(retransmits.count, "retransmission"),
                   format_endpoint(flow.src), format_endpoint(flow.dst)),
       retransmits.events});
  finding.evidence.push_back(
      {"tcp_cong_state_set",
       timeouts.count,
       fmt::format(
           "{} or late probes (200 ms of silence or more each) and {} in recovery cover {:.0f} % of the stalled time",
           count_of(timeouts.count, "retransmission timeout"), format_duration(recovery.time_ns), 100 * group.coverage),
       {}});
  for (Evidence& side : side_evidence(context, group)) {
    finding.evidence.push_back(std::move(side));
  }
  finding.remedy =
      node ? fmt::format(
                 "check the network port of {}: its cable or optics, NIC and switch-port error and drop counters "
                 "(ethtool -S), "
                 "its firewall or traffic shaping",
                 finding.culprit->node)
           : fmt::format(
                 "check the path {} -> {}: both NICs' and the switch ports' error and drop counters (ethtool -S), "
                 "firewall rules on either end that drop part of the traffic",
                 flow.src.address, flow.dst.address);
}

}  // namespace

const CauseRule kPacketLossRule{Cause::kPacketLoss, kPacketLossGate, judge, refine, tell};

}  // namespace stalltrace::analysis
