// SPDX-License-Identifier: Apache-2.0
// slow_link: a link is busy throughout the stall, without loss and with room at the receiver, and delivers far less
// than the other links do while they are busy.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "analysis/causes/cause.h"
#include "analysis/causes/network/common_location.h"
#include "analysis/causes/network/links.h"
#include "analysis/causes/profiler_only.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/gates.h"
#include "analysis/thresholds/network.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

/// Acknowledged bytes as the count, with the busy time.
enum class Counted : uint8_t { kThisLink, kOtherLink };
constexpr double kBitsPerByte = 8;

/// Bytes per second of busy time. A flow whose busy time is too short to be measured has the highest rate.
double rate_of(const FlowDelta& delta) {
  return delta.busy_ns <= 0
             ? std::numeric_limits<double>::max()
             : static_cast<double>(delta.acked_bytes) * kNsPerSecond / static_cast<double>(delta.busy_ns);
}

struct Measured {
  FlowIndex flow = kNoFlow;
  FlowDelta delta;
  double rate = 0;
};

/// Removes links that carried very little (a store's heartbeats): their rate means nothing.
void drop_idle(std::vector<Measured>& measured) {
  uint64_t most = 0;
  for (const Measured& one : measured) {
    most = std::max(most, one.delta.acked_bytes);
  }
  std::erase_if(measured, [&](const Measured& one) {
    return static_cast<double>(one.delta.acked_bytes) < kCarriesShare * static_cast<double>(most);
  });
}

/// Links within a node are faster than those between nodes: one between nodes stands out only beside others of its
/// kind. `measured`: the slowest one first.
void keep_one_kind(const AnalysisContext& context, std::vector<Measured>& measured) {
  const auto within_node = [&](const Measured& one) {
    const FaultLocation link = link_of(context.flows, one.flow);
    return on_one_node(context, link.src, link.dst);
  };
  if (!within_node(measured.front())) {
    std::erase_if(measured, within_node);
  }
}

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  judge_link_by_steps(context, stall, out);
  if (!network_may_be_slow(stall)) {
    return;
  }
  std::vector<Measured> measured;
  for (const FlowIndex index : flows_of(context, stall)) {
    const FlowDelta delta = context.evidence.delta(index, stall.examined());
    if (delta.span_ns > 0 && delta.acked_bytes > 0) {
      measured.push_back({index, delta, rate_of(delta)});
    }
  }
  drop_idle(measured);
  std::sort(measured.begin(), measured.end(), [](const Measured& a, const Measured& b) { return a.rate < b.rate; });
  if (!measured.empty()) {
    keep_one_kind(context, measured);
  }
  if (measured.size() < 2) {
    return;
  }
  const Measured& slowest = measured.front();
  const Measured& middle = measured[1 + (measured.size() - 2) / 2];
  const FlowDelta& delta = slowest.delta;
  const double busy = share_of(delta.busy_ns, delta.span_ns);
  // Of a step, whose links are idle while devices compute: for how much longer than others it was busy.
  const double longer = stall.step ? share_of(delta.busy_ns - middle.delta.busy_ns, stall.to_explain_ns()) : 0;
  const double limited = share_of(delta.receiver_limited_ns, delta.busy_ns);
  const bool needless = context.evidence.repeats_needlessly(slowest.flow, stall.examined());
  const double lossy =
      needless ? 0 : share_of(context.evidence.loss(slowest.flow, stall.examined()).covered_ns, stall.to_explain_ns());
  Hypothesis hypothesis{.cause = Cause::kSlowLink, .location = link_of(context.flows, slowest.flow)};
  hypothesis.coverage = std::max(busy, longer);
  hypothesis.applies = hypothesis.coverage >= kBusyShare && limited < kReceiverLimitedShare && lossy < kCoverage &&
                       middle.rate >= kSlowLinkContrast * slowest.rate;
  hypothesis.why = fmt::format(
      "the slowest link was busy {:.0f} % of the time and delivered {:.0f} Mbit/s, the middle one {}", 100 * busy,
      slowest.rate * kBitsPerByte / 1e6,
      middle.delta.busy_ns <= 0 ? "was never busy" : fmt::format("{:.0f}", middle.rate * kBitsPerByte / 1e6));
  hypothesis.counters.at(Counted::kThisLink) = {static_cast<int64_t>(delta.acked_bytes), delta.busy_ns, {}};
  hypothesis.counters.at(Counted::kOtherLink) = {
      static_cast<int64_t>(middle.delta.acked_bytes), middle.delta.busy_ns, {}};
  out.push_back(std::move(hypothesis));
}

std::string rate_text(const EvidenceCounter& carried) {
  const FlowDelta delta{.busy_ns = carried.time_ns, .acked_bytes = static_cast<uint64_t>(carried.count)};
  return carried.time_ns <= 0 ? "too fast to be measured"
                              : fmt::format("{:.0f} Mbit/s", rate_of(delta) * kBitsPerByte / 1e6);
}

/// The link of a group. A link known only from NCCL's steps has ranks but no connection.
LinkEndpoints endpoints_of(const AnalysisContext& context, const CauseGroup& group) {
  const auto rank = [&](MemberIndex member) { return context.cluster.member(member).rank; };
  return group.location.flow == kNoFlow ? LinkEndpoints{rank(group.location.src), rank(group.location.dst), {}, {}}
                                        : link_endpoints(context, group.location);
}

/// True if the other group is packet loss that cost no less.
bool is_beside_loss(const SubsumptionQuery& query) {
  return (query.by.cause == Cause::kPacketLoss || query.by.cause == Cause::kHostDrop) &&
         query.by.lost.total_ns() >= query.group.lost.total_ns();
}

/// After losses a link sends less for a while because of its congestion window: it is then slow without loss.
bool is_aftermath(const SubsumptionQuery& query) {
  const LinkEndpoints slow = endpoints_of(query.context, query.group);
  const Flow& lossy = query.context.flows.flow(query.by.location.flow);
  const bool same_link =
      slow.src && slow.dst && slow.src->address == lossy.src.address && slow.dst->address == lossy.dst.address;
  const FaultLocation& own = query.group.location;
  if (const std::optional<NodeId>& node = query.by.location.node) {
    return same_link || node == node_of(query.context, own.src) || node == node_of(query.context, own.dst);
  }
  const MemberIndex culprit = query.by.location.culprit;
  const std::optional<int32_t> rank = culprit == kNoMember ? std::nullopt : query.context.cluster.member(culprit).rank;
  return same_link || (rank && (rank == slow.src_rank || rank == slow.dst_rank));
}

/// A node that loses incoming packets also loses the acknowledgements of its own data; a node that loses outgoing
/// packets loses the acknowledgements that it sends. A link that waits for a lost acknowledgement is busy and loses no
/// data.
bool lacks_acknowledgements(const SubsumptionQuery& query) {
  const FaultLocation& slow = query.group.location;
  const FaultLocation& lossy = query.by.location;
  return share_of(query.group.lost.total_ns(), query.by.lost.total_ns()) <= kEchoShare &&
         ((slow.src != kNoMember && slow.src == lossy.dst) || (slow.dst != kNoMember && slow.dst == lossy.src));
}

/// A rank's acknowledgements queue behind the data it sends: if its sending is slow, the links into it seem slow as
/// well, at a lower cost.
bool is_echo(const SubsumptionQuery& query) {
  const FaultLocation& own = query.group.location;
  if (query.by.cause != Cause::kSlowLink || own.dst == kNoMember) {
    return false;
  }
  // Where all ranks are on one node, each link comes into the node that every other one leaves.
  const bool from_outside = !on_one_node(query.context, own.src, own.dst);
  return own.dst == query.by.location.src ||
         (from_outside && on_one_node(query.context, own.dst, query.by.location.src));
}

Subsumption subsumed_by(const SubsumptionQuery& query) {
  if (is_echo(query)) {
    return {.kind = Subsumption::Kind::kMergeCost};
  }
  if (!is_beside_loss(query)) {
    return {};
  }
  const bool aftermath = is_aftermath(query);
  if (!aftermath && !lacks_acknowledgements(query)) {
    return {};
  }
  const LinkEndpoints slow = endpoints_of(query.context, query.group);
  const auto address = [](const std::optional<Endpoint>& end) { return end ? end->address : "?"; };
  return {.kind = Subsumption::Kind::kMention,
          .text = fmt::format("{}: there, the link from {} to {} was slow {}", more_text(query.group),
                              address(slow.src), address(slow.dst),
                              aftermath ? "between losses" : "and its acknowledgements pass the host that loses")};
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  if (describe_link_by_steps(context, group, finding)) {
    return;
  }
  const std::string rate = rate_text(group.counters.sum(Counted::kThisLink));
  const bool several = group.location.at_one_end();
  finding.summary =
      fmt::format("The link{} {} {} slow, {} without loss: {}.", several ? "s" : "",
                  direction_text(context, group.location), several ? "are" : "is", rate, cost_text(group));
  finding.link = link_endpoints(context, group.location);
  finding.evidence.push_back(
      {"tcp_sample",
       static_cast<int64_t>(group.stalls.size()),
       fmt::format("it carried data for {:.0f} % of the stalled time, at {} while busy; the median of the other links "
                   "is {}",
                   100 * share_of(group.counters.sum(Counted::kThisLink).time_ns, time_of(group).total_ns()), rate,
                   rate_text(group.counters.sum(Counted::kOtherLink))),
       {}});
  finding.remedy = fmt::format(
      "check the negotiated speed of the ports on the way {} -> {} (ethtool), traffic shaping (tc qdisc), other "
      "traffic on the same link, and the route",
      finding.link->src->address, finding.link->dst->address);
}

}  // namespace

extern const CauseRule kSlowLinkRule{
    .cause = Cause::kSlowLink,
    .gate = kSlowLinkGate,
    .needs = "no link between its ranks was busy all the time and far slower than the others",
    .judge = judge,
    .refine = join_by_location,
    .describe = describe,
    .subsumed_by = subsumed_by,
    .hints = {.packets = true},
    .needs_absence_of = {EvidenceKind::kRetransmits, EvidenceKind::kCongestionStates}};

}  // namespace stalltrace::analysis
