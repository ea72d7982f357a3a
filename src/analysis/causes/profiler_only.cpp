// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/profiler_only.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/causes/network/links.h"
#include "analysis/evidence/wait_graph.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/steps.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

enum class Counted : uint8_t {
  kHeld,     // time that the link held chunks
  kArrival,  // lateness that only the arrival shows
};

/// True if the kernel recorded this link, in either direction: that is better evidence than the steps.
bool has_flow(const AnalysisContext& context, const Stall& stall, MemberIndex src, MemberIndex dst) {
  const auto joins = [&](MemberIndex owner, MemberIndex peer) {
    return std::ranges::any_of(context.flows.of(owner), [&](FlowIndex index) {
      const Flow& flow = context.flows.flow(index);
      return flow.carries_collectives && flow.peer == peer && may_carry(context, stall, flow);
    });
  };
  return joins(src, dst) || joins(dst, src);
}

/// True if nothing is known of what the threads of any rank on its node did.
bool lacks_scheduler_evidence(const AnalysisContext& context, MemberIndex index) {
  const auto& members = context.cluster.members();
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].node_id == context.cluster.member(index).node_id &&
        context.evidence.has_waits(static_cast<MemberIndex>(i))) {
      return false;
    }
  }
  return true;
}

}  // namespace

void judge_link_by_steps(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  if (context.evidence.steps().empty() || !network_may_be_slow(stall)) {
    return;
  }
  const LinkWait* held = nullptr;
  int64_t next_ns = 0;
  const std::vector<LinkWait> waits = context.evidence.steps().waits(context.cluster, stall.members, stall.examined());
  for (const LinkWait& wait : waits) {
    if (wait.kind != LinkWaitKind::kInFlight) {
      continue;
    }
    if (held == nullptr || wait.covered_ns > held->covered_ns) {
      next_ns = held == nullptr ? 0 : held->covered_ns;
      held = &wait;
    } else {
      next_ns = std::max(next_ns, wait.covered_ns);
    }
  }
  if (held == nullptr || has_flow(context, stall, held->src, held->dst)) {
    return;
  }
  Hypothesis hypothesis{.cause = Cause::kSlowLink, .location = {.src = held->src, .dst = held->dst}};
  const double share = share_of(held->covered_ns, stall.to_explain_ns());
  const bool alone = static_cast<double>(held->covered_ns) >= kLinkHeldContrast * static_cast<double>(next_ns);
  hypothesis.coverage = std::min(share, kProfilerAloneConfidence);
  hypothesis.applies = share >= kCoverage && alone;
  hypothesis.why = fmt::format("chunks from {} were under way to {} for {:.0f} % of the stall, on the next link for {}",
                               short_name(context.cluster, held->src), short_name(context.cluster, held->dst),
                               100 * share, format_duration(next_ns));
  hypothesis.counters.at(Counted::kHeld) = {held->waits, held->covered_ns, {}};
  out.push_back(std::move(hypothesis));
}

bool describe_link_by_steps(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const EvidenceCounter held = group.counters.sum(Counted::kHeld);
  if (held.count == 0) {
    return false;
  }
  const Cluster& cluster = context.cluster;
  finding.link =
      LinkEndpoints{cluster.member(group.location.src).rank, cluster.member(group.location.dst).rank, {}, {}};
  finding.summary = fmt::format("Data that {} had sent reached {} late: {}.", cluster.describe(group.location.src),
                                cluster.describe(group.location.dst), cost_text(group));
  finding.evidence.push_back(
      {"proxy_step",
       held.count,
       fmt::format(
           "NCCL's steps show that the receiver waited {} for chunks that the sender had already handed over; no other "
           "link held any for half as long",
           format_duration(held.time_ns)),
       {}});
  finding.evidence.push_back({"missing",
                              1,
                              "the counters of this link were not recorded: it may have lost packets or been slow, or "
                              "the receiving process may not have read",
                              {}});
  finding.remedy = fmt::format(
      "look at the path from {} to {}: port errors and drops, negotiated speed, other traffic; record both nodes "
      "(stalltrace trace) to see which it is",
      cluster.member(group.location.src).node, cluster.member(group.location.dst).node);
  return true;
}

void judge_late_by_arrival(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  if (stall.part() != StallPart::kLate || stall.hung() || stall.suspects.size() != 1 ||
      !lacks_scheduler_evidence(context, stall.suspects[0])) {
    return;
  }
  Hypothesis hypothesis{.cause = Cause::kLateRank, .location = {.culprit = stall.suspects[0]}, .applies = true};
  hypothesis.coverage = kProfilerAloneConfidence;
  hypothesis.why = fmt::format("{} arrived {} after the others", short_name(context.cluster, stall.suspects[0]),
                               format_duration(stall.lost_ns));
  hypothesis.counters.at(Counted::kArrival) = {1, stall.lost_ns, {}};
  out.push_back(std::move(hypothesis));
}

bool describe_late_by_arrival(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const EvidenceCounter late = group.counters.sum(Counted::kArrival);
  if (late.count == 0) {
    return false;
  }
  finding.summary = capitalised(fmt::format("{} arrives late while the others wait: {}.",
                                            context.cluster.describe(group.location.culprit), cost_text(group)));
  finding.evidence.push_back(
      {"missing",
       1,
       "the rank's activity before it arrived was not recorded: it may have computed, waited for something else, been "
       "stopped, or waited for a CPU",
       {}});
  finding.remedy = fmt::format(
      "see what this rank does before it calls; record the threads of {} (stalltrace trace) to see what delays it",
      finding.culprit->node);
  return true;
}

}  // namespace stalltrace::analysis
