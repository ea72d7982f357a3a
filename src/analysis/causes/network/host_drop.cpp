// SPDX-License-Identifier: Apache-2.0
// host_drop: a link recovers from loss, and the host at one of its ends dropped the packets for its own reason: a
// queue, memory, a broken card. Packets dropped by a rule of the host (a firewall) are packet_loss, with the rule as
// evidence.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/causes/cause.h"
#include "analysis/causes/network/common_location.h"
#include "analysis/causes/network/drops.h"
#include "analysis/causes/network/links.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/gates.h"
#include "analysis/thresholds/network.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

enum class Counted : uint8_t { kDropped, kIncoming };

/// Incoming or outgoing packets that one host dropped, and the time that links took to recover.
struct Dropper {
  std::set<MemberIndex> members;  // whose packets
  bool of_sockets = true;         // all for reasons of a socket
  FlowIndex flow = kNoFlow;       // the one with most losses
  int64_t most_packets = 0;
  std::vector<FlowIndex> flows;
  std::vector<Interval> recovery;
  std::map<std::string, int64_t> packets;  // by reason
};

/// Who is to blame: the rank if only packets for its sockets were dropped, else the host, whose queues its ranks share.
void blame(const AnalysisContext& context, const Dropper& dropper, FaultLocation& location) {
  if (dropper.of_sockets && dropper.members.size() == 1) {
    location.culprit = *dropper.members.begin();
  } else {
    blame_end(context, *dropper.members.begin(), location);
  }
}

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  if (stall.part() != StallPart::kTransfer) {
    return;
  }
  std::map<std::pair<std::optional<NodeId>, bool>, Dropper> droppers;
  for (const FlowIndex index : flows_of(context, stall)) {
    const FlowLoss loss = context.evidence.loss(index, stall.examined());
    if (loss.covered_ns == 0) {
      continue;
    }
    const int64_t repeated = repeated_bytes(context, index, stall.examined());
    for (const LinkDrop& drop : link_drops(context, index, IntervalSet({stall.examined()}))) {
      if (drop_reason(drop.sum.reason).rule ||
          share_of(static_cast<int64_t>(drop.sum.bytes), repeated) < kDroppedShare) {
        continue;
      }
      Dropper& dropper = droppers[{node_of(context, drop.host), drop.incoming}];
      dropper.members.insert(drop.host);
      dropper.of_sockets = dropper.of_sockets && drop_reason(drop.sum.reason).of_socket;
      if (drop.sum.packets > dropper.most_packets) {
        dropper.most_packets = drop.sum.packets;
        dropper.flow = index;
      }
      dropper.packets[drop.sum.reason] += drop.sum.packets;
      dropper.flows.push_back(index);
      context.evidence.loss_intervals(index).clip(stall.examined(), dropper.recovery);
    }
  }
  for (auto& [key, dropper] : droppers) {
    const int64_t covered_ns = IntervalSet(std::move(dropper.recovery)).total_ns();
    Hypothesis hypothesis{.cause = Cause::kHostDrop, .location = {.flow = dropper.flow}};
    blame(context, dropper, hypothesis.location);
    const std::string who = hypothesis.location.node ? end_text(context, hypothesis.location)
                                                     : short_name(context.cluster, hypothesis.location.culprit);
    hypothesis.coverage = share_of(covered_ns, stall.to_explain_ns());
    hypothesis.applies = hypothesis.coverage >= kCoverage;
    for (const auto& [reason, packets] : dropper.packets) {
      hypothesis.counters.at(Counted::kDropped, reason) = {packets, packets, {}};
      hypothesis.why += fmt::format("{}{} dropped {} ({})", hypothesis.why.empty() ? "" : ", ", who,
                                    count_of(packets, "packet"), reason);
    }
    hypothesis.counters.at(Counted::kIncoming).count = key.second ? 1 : 0;
    hypothesis.flows = std::move(dropper.flows);
    out.push_back(std::move(hypothesis));
  }
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const std::string reason = group.counters.longest_detail(Counted::kDropped);
  const DropReason& known = drop_reason(reason);
  const bool incoming = group.counters.sum(Counted::kIncoming).count > 0;
  const IntervalSet times = time_of(group);
  const FaultLocation& location = group.location;
  int64_t dropped = 0;  // overlapping stalls count each once
  for (FlowIndex i = 0; i < context.flows.all().size(); ++i) {
    for (const LinkDrop& drop : link_drops(context, i, times)) {
      const bool ours = location.node ? node_of(context, drop.host) == location.node : drop.host == location.culprit;
      dropped += ours && drop.incoming == incoming && !drop_reason(drop.sum.reason).rule ? drop.sum.packets : 0;
    }
  }
  const int64_t repeated = loss_totals(context, group).retransmits;
  finding.summary = fmt::format("The host {}{} drops packets on their way {}, {}: {}.", location.node ? "" : "of ",
                                end_text(context, location), incoming ? "in" : "out", known.what, cost_text(group));
  finding.link = link_endpoints(context, link_of(context.flows, group.location.flow));
  finding.evidence.push_back(
      {"packet_drop",
       dropped,
       fmt::format("{} of the job dropped inside the host during the stalls, most for the kernel's reason {}",
                   count_of(dropped, "packet"), reason),
       {}});
  finding.evidence.push_back({"tcp_retransmit_skb",
                              repeated,
                              fmt::format("{}; recovery from loss covers {:.0f} % of the lost time",
                                          count_of(repeated, "retransmission"), 100 * group.coverage),
                              {}});
  finding.remedy = fmt::format("on {}: {}", finding.culprit->node, known.remedy);
}

}  // namespace

extern const CauseRule kHostDropRule{.cause = Cause::kHostDrop,
                                     .gate = kPacketLossGate,
                                     .needs = "no host dropped packets of its connections in that time",
                                     .judge = judge,
                                     .describe = describe,
                                     .hints = {.packets = true}};

}  // namespace stalltrace::analysis
