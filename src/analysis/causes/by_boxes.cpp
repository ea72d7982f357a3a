// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/by_boxes.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/causes/links.h"
#include "analysis/wait_graph.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr const char* kHeld = "held by the link";
constexpr const char* kArrival = "arrival alone";

/// The kernel's own account of this link, in either direction, is better evidence than the steps.
bool has_flow(const Scene& scene, MemberIndex src, MemberIndex dst) {
  return std::any_of(scene.flows.all().begin(), scene.flows.all().end(), [&](const Flow& flow) {
    return flow.carries_collectives &&
           ((flow.owner == src && flow.peer == dst) || (flow.owner == dst && flow.peer == src));
  });
}

/// A rank that the plugin told of, on a node of which the scheduler told nothing.
bool known_by_box_alone(const Scene& scene, MemberIndex index) {
  const Member& member = scene.cluster.member(index);
  const auto& communicators = scene.cluster.communicators();
  const bool by_box = std::any_of(communicators.begin(), communicators.end(), [&](const Communicator& row) {
    return row.node_id == member.node_id && row.pid == member.pid && row.rank_source == RankSource::kPlugin;
  });
  const auto& members = scene.cluster.members();
  for (size_t i = 0; by_box && i < members.size(); ++i) {
    if (members[i].node_id == member.node_id && scene.evidence.has_waits(static_cast<MemberIndex>(i))) {
      return false;
    }
  }
  return by_box;
}

}  // namespace

void judge_link_by_steps(const Scene& scene, const Stall& stall, std::vector<Explanation>& out) {
  if (scene.evidence.steps().empty() || !network_may_be_slow(stall)) {
    return;
  }
  const LinkWait* held = nullptr;
  int64_t next_ns = 0;
  const std::vector<LinkWait> waits = scene.evidence.steps().waits(scene.cluster, stall.members, stall.examined());
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
  if (held == nullptr || has_flow(scene, held->src, held->dst)) {
    return;
  }
  Explanation opinion{.cause = Cause::kSlowLink, .place = {.src = held->src, .dst = held->dst}};
  const double share = share_of(held->covered_ns, stall.to_explain_ns());
  const bool alone = static_cast<double>(held->covered_ns) >= kLinkHeldContrast * static_cast<double>(next_ns);
  opinion.coverage = std::min(share, kBoxesAloneConfidence);
  opinion.applies = share >= kCoverage && alone;
  opinion.why = fmt::format("chunks from {} were under way to {} for {:.0f} % of the stall, on the next link for {}",
                            short_name(scene.cluster, held->src), short_name(scene.cluster, held->dst), 100 * share,
                            format_duration(next_ns));
  opinion.tallies[{kHeld, ""}] = {held->waits, held->covered_ns, {}};
  out.push_back(std::move(opinion));
}

bool tell_link_by_steps(const Scene& scene, const Folded& group, Finding& finding) {
  const Tally held = tally_of(group.tallies, kHeld);
  if (held.count == 0) {
    return false;
  }
  const Cluster& cluster = scene.cluster;
  finding.link = LinkPlace{cluster.member(group.place.src).rank, cluster.member(group.place.dst).rank, {}, {}};
  finding.summary = fmt::format("Data that {} had sent reached {} late: {}.", cluster.describe(group.place.src),
                                cluster.describe(group.place.dst), cost_text(group));
  finding.evidence.push_back(
      {"proxy_step",
       held.count,
       fmt::format(
           "by NCCL's steps the receiver waited {} for chunks that the sender had handed over already; no other "
           "link held any for half as long",
           format_duration(held.time_ns)),
       {}});
  finding.evidence.push_back({"missing",
                              1,
                              "this link's own counters were not recorded: whether it lost packets, was slow, or the "
                              "receiving process did not "
                              "read cannot be said",
                              {}});
  finding.remedy = fmt::format(
      "look at the path from {} to {}: port errors and drops, negotiated speed, traffic on it; trace both nodes "
      "(stalltrace trace) to learn which",
      cluster.member(group.place.src).node, cluster.member(group.place.dst).node);
  return true;
}

void judge_late_by_arrival(const Scene& scene, const Stall& stall, std::vector<Explanation>& out) {
  if (stall.part != StallPart::kLate || stall.hung || stall.suspects.size() != 1 ||
      !known_by_box_alone(scene, stall.suspects[0])) {
    return;
  }
  Explanation opinion{.cause = Cause::kLateRank, .place = {.culprit = stall.suspects[0]}, .applies = true};
  opinion.coverage = kBoxesAloneConfidence;
  opinion.why = fmt::format("{} arrived {} after the others", short_name(scene.cluster, stall.suspects[0]),
                            format_duration(stall.lost_ns));
  opinion.tallies[{kArrival, ""}] = {1, stall.lost_ns, {}};
  out.push_back(std::move(opinion));
}

bool tell_late_by_arrival(const Scene& scene, const Folded& group, Finding& finding) {
  const Tally late = tally_of(group.tallies, kArrival);
  if (late.count == 0) {
    return false;
  }
  finding.summary = capitalised(fmt::format("{} arrives late, while the others wait: {}.",
                                            scene.cluster.describe(group.place.culprit), cost_text(group)));
  finding.evidence.push_back(
      {"missing",
       1,
       "what it did meanwhile was not recorded: it may have computed, waited for something else, "
       "been stopped or been short of a CPU",
       {}});
  finding.remedy =
      fmt::format("see what this rank does before it calls; trace {} (stalltrace trace) to learn what kept it",
                  finding.culprit->node);
  return true;
}

}  // namespace stalltrace::analysis
