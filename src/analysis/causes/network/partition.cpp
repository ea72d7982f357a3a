// SPDX-License-Identifier: Apache-2.0
// partition: data are in flight, the sender's timer doubles, and nothing is acknowledged. If it can't be distinguished
// from an MTU black hole, the link is named and the cause is unknown.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/causes/cause.h"
#include "analysis/causes/network/ack_gap.h"
#include "analysis/causes/network/common_location.h"
#include "analysis/causes/network/links.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/gates.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  if (!network_may_be_slow(stall)) {
    return;
  }
  std::vector<SilentLink> links = silent_links(context, stall);
  std::erase_if(links, [](const SilentLink& link) { return link.mtu(); });
  if (std::all_of(links.begin(), links.end(), [](const SilentLink& link) { return link.witness; })) {
    return;
  }
  const bool undecided = std::all_of(links.begin(), links.end(), [](const SilentLink& link) {
    return link.witness || link.small == SmallSegments::kNone;
  });
  Hypothesis hypothesis = hypothesis_of(context, stall, undecided ? Cause::kUnknown : Cause::kPartition, links);
  hypothesis.applies = hypothesis.coverage >= kCoverage;
  out.push_back(std::move(hypothesis));
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const EvidenceCounter repeated = repeated_in_vain(context, group);
  const bool node = group.location.at_one_end();
  const bool either_way = is_either_way(group);
  const std::string where = node         ? "from or to " + end_text(context, group.location)
                            : either_way ? link_text(context, group.location, LinkText::kEitherWay)
                                         : link_text(context, group.location);
  finding.summary = fmt::format("Nothing gets through {}: {}.", where, cost_text(group));
  finding.link = link_endpoints(context, group.location);
  finding.evidence.push_back(
      {"tcp_retransmit_skb", repeated.count,
       fmt::format("{} and nothing acknowledged for {}", count_of(repeated.count, "retransmission"),
                   format_duration(silent_ns(group))),
       repeated.events});
  finding.evidence.push_back({"tcp_sample", 1, "small segments and acknowledgements are lost, too", {}});
  if (either_way) {
    add_direction_not_known(finding);
  }
  finding.remedy =
      node ? fmt::format("check that {} is reachable: link state of its port, cable, switch, firewall",
                         finding.culprit->node)
           : fmt::format(
                 "check that {} reaches {}{} (ping between exactly these addresses): routes, switches between "
                 "them, firewalls on either end",
                 finding.link->src->address, finding.link->dst->address, either_way ? " and is reached by it" : "");
}

}  // namespace

extern const CauseRule kPartitionRule{
    .cause = Cause::kPartition,
    .gate = kPartitionGate,
    .needs = "no connection between its ranks had data in flight that were not acknowledged",
    .judge = judge,
    .refine = join_by_end,
    .describe = describe,
    .hints = {.packets = true}};

}  // namespace stalltrace::analysis
