// SPDX-License-Identifier: Apache-2.0
// mtu_blackhole: full-size segments are repeated and never acknowledged, while small ones pass behind them or between
// the same two processes: something on the path carries smaller packets than the ends believe, and does not tell.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/causes/cause.h"
#include "analysis/causes/network/ack_gap.h"
#include "analysis/causes/network/links.h"
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
  Hypothesis hypothesis = opinion_of(stall, Cause::kMtuBlackhole, links);
  const bool host_counter_hints =
      std::any_of(links.begin(), links.end(), [](const SilentLink& link) { return !link.passed_before; });
  hypothesis.coverage *= host_counter_hints ? 1 : kPassedBeforeCertainty;
  hypothesis.applies = hypothesis.coverage >= kCoverage;
  out.push_back(std::move(hypothesis));
}

void tell(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const EvidenceCounter silent = tally_of(group.counters, kSilent);
  const EvidenceCounter repeated = tally_of(group.counters, kRepeated);
  const std::string where = group.place.culprit == kNoMember
                                ? link_text(context, group.place)
                                : fmt::format("from or to {}", context.cluster.describe(group.place.culprit));
  finding.summary =
      fmt::format("Large packets do not get through {} while small ones {}: {}.", where,
                  tally_of(group.counters, kOnlySmallBefore).count > 0 ? "did before" : "do", cost_text(group));
  finding.link = link_place(context, group.place);
  finding.evidence.push_back({"tcp_retransmit_skb", repeated.count,
                              fmt::format("{}, none of full size acknowledged for {}",
                                          count_of(repeated.count, "retransmission"), format_duration(silent.time_ns)),
                              repeated.events});
  finding.evidence.push_back({"tcp_sample",
                              1,
                              tally_of(group.counters, kOvertaken).count > 0
                                  ? "the receiver has the small segments that were sent behind the large ones"
                              : tally_of(group.counters, kOnlySmallBefore).count > 0
                                  ? "before, small segments passed on this connection, and never a large one"
                                  : "meanwhile small segments passed between the same two processes",
                              {}});
  finding.remedy = fmt::format(
      "compare the MTU of all interfaces and switch ports from {} to {} (ip link; ping -M do -s 1472), and let ICMP "
      "'fragmentation needed' through; until then net.ipv4.tcp_mtu_probing=1",
      finding.link->src->address, finding.link->dst->address);
}

}  // namespace

const CauseRule kMtuBlackholeRule{Cause::kMtuBlackhole, kPartitionGate, judge, nullptr, tell};

}  // namespace stalltrace::analysis
