// SPDX-License-Identifier: Apache-2.0
// mtu_blackhole: full-size segments are repeated and never acknowledged, while small ones pass after them or between
// the same two processes: the path carries smaller packets than its ends assume, and nothing reports it.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/causes/cause.h"
#include "analysis/causes/network/ack_gap.h"
#include "analysis/causes/network/common_location.h"
#include "analysis/causes/network/links.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/gates.h"
#include "analysis/thresholds/network.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  if (!network_may_be_slow(stall)) {
    return;
  }
  std::vector<SilentLink> links = silent_links(context, stall);
  std::erase_if(links, [](const SilentLink& link) { return link.witness || !link.mtu(); });
  if (links.empty()) {
    return;
  }
  Hypothesis hypothesis = hypothesis_of(context, stall, Cause::kMtuBlackhole, links);
  const bool passed_since =
      std::any_of(links.begin(), links.end(), [](const SilentLink& link) { return !link.passed_before; });
  hypothesis.coverage *= passed_since ? 1 : kPassedBeforeCertainty;
  hypothesis.applies = hypothesis.coverage >= kCoverage;
  out.push_back(std::move(hypothesis));
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const EvidenceCounter repeated = repeated_in_vain(context, group);
  const bool only_before = group.counters.sum(SilenceCounted::kOnlySmallBefore).count > 0;
  const std::string where = group.location.at_one_end() ? "from or to " + end_text(context, group.location)
                                                        : link_text(context, group.location);
  finding.summary = fmt::format("Large packets do not get through {} while small ones {}: {}.", where,
                                only_before ? "did before" : "do", cost_text(group));
  finding.link = link_endpoints(context, group.location);
  finding.evidence.push_back(
      {"tcp_retransmit_skb", repeated.count,
       fmt::format("{}, none of full size acknowledged for {}", count_of(repeated.count, "retransmission"),
                   format_duration(silent_ns(group))),
       repeated.events});
  finding.evidence.push_back({"tcp_sample",
                              1,
                              group.counters.sum(SilenceCounted::kOvertaken).count > 0
                                  ? "the receiver has the small segments that were sent behind the large ones"
                              : only_before ? "before, small segments passed on this connection, and never a large one"
                                            : "small segments passed between the same two processes in that time",
                              {}});
  finding.remedy = fmt::format(
      "compare the MTU of all interfaces and switch ports from {} to {} (ip link; ping -M do -s 1472), and let ICMP "
      "'fragmentation needed' through; until then net.ipv4.tcp_mtu_probing=1",
      finding.link->src->address, finding.link->dst->address);
}

}  // namespace

extern const CauseRule kMtuBlackholeRule{
    .cause = Cause::kMtuBlackhole,
    .gate = kPartitionGate,
    .needs = "no connection between its ranks repeated large segments only while small ones passed",
    .judge = judge,
    .refine = join_by_end,
    .describe = describe,
    .hints = {.packets = true}};

}  // namespace stalltrace::analysis
