// SPDX-License-Identifier: Apache-2.0
// late_rank: a rank arrived last by far, and between its previous collective and its arrival it was computing or
// waiting outside of collectives: neither stopped nor kept from the core.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analysis/causes/activity.h"
#include "analysis/causes/by_boxes.h"
#include "analysis/causes/cause.h"
#include "analysis/instance.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr const char* kOnCpu = "on_cpu";
constexpr const char* kBlocked = "blocked";
constexpr const char* kDisk = "disk";
constexpr const char* kElsewhere = "elsewhere";
constexpr std::ptrdiff_t kCallsLookedAt = 256;  // of one lane, backwards from the stall

/// A call on another communicator in which a rank was for most of a time.
struct Elsewhere {
  uint32_t lane = 0;
  int64_t column = 0;
  int64_t inside_ns = 0;
};

/// The one that takes most of the window.
Elsewhere elsewhere(const Scene& scene, const Stall& stall, MemberIndex member, Interval window) {
  Elsewhere most;
  for (uint32_t index = 0; index < scene.timeline.lanes().size(); ++index) {
    const Lane& lane = scene.timeline.lanes()[index];
    if (lane.member != member || lane.group == stall.group) {
      continue;
    }
    const auto after = std::partition_point(lane.calls.begin(), lane.calls.end(),
                                            [&](const Call& call) { return call.arrival_ns < window.to_ns; });
    for (auto call = after; call != lane.calls.begin() && after - call < kCallsLookedAt;) {
      --call;
      const int64_t inside_ns = call->present ? intersect({call->arrival_ns, call->end_ns()}, window).length() : 0;
      if (inside_ns > most.inside_ns) {
        most = {index, lane.first_column() + (call - lane.calls.begin()), inside_ns};
      }
    }
  }
  return most;
}

/// Another rank that came last to that call, and for whom this one waited there for most of the window: the chain
/// begins with it, in a stall of its own.
MemberIndex start_of_chain(const Scene& scene, const Elsewhere& call, MemberIndex member, Interval window) {
  Instance instance;
  if (!read_instance(scene.timeline, scene.timeline.lanes()[call.lane].group, call.column, instance) ||
      share_of(instance.last_arrival_ns - window.from_ns, window.length()) < kCoverage) {
    return kNoMember;
  }
  const MemberIndex last = scene.timeline.lanes()[instance.seen.back().lane].member;
  return last == member ? kNoMember : last;
}

/// Work that is rank 0's by custom, done now and then.
bool is_rare_work_of_rank0(const Scene& scene, const Folded& group) {
  std::set<uint32_t> communicators;
  for (const Stall* stall : group.stalls) {
    communicators.insert(stall->group);
  }
  int64_t instances = 0;
  for (const uint32_t communicator : communicators) {
    for (const ColumnRange& columns : columns_of(scene.timeline, scene.timeline.groups()[communicator])) {
      instances += columns.end - columns.begin;
    }
  }
  const bool computing = tally_of(group.tallies, kOnCpu).time_ns >= tally_of(group.tallies, kBlocked).time_ns &&
                         tally_of(group.tallies, kOnCpu).time_ns >= tally_of(group.tallies, kDisk).time_ns;
  return computing && scene.cluster.member(group.place.culprit).rank == 0 &&
         share_of(group.instances, instances) <= kRareShare;
}

void judge(const Scene& scene, const Stall& stall, std::vector<Explanation>& out) {
  judge_late_by_arrival(scene, stall, out);
  if (stall.part != StallPart::kLate || stall.suspects.size() != 1 || !scene.evidence.has_waits(stall.suspects[0])) {
    return;
  }
  const MemberIndex member = stall.suspects[0];
  const Interval window = stall.examined();
  const WaitShare on_cpu = scene.evidence.share(member, WaitKind::kOnCpu, window);
  const int32_t tid = working_tid(scene, member, window, stall.calling_tid);
  const WaitShare blocked = scene.evidence.share(member, WaitKind::kBlocked, window, false, tid);
  const WaitShare disk = scene.evidence.share(member, WaitKind::kDisk, window, false, tid);
  const WaitShare runnable = scene.evidence.share(member, WaitKind::kRunnable, window);
  const WaitShare kept = scene.evidence.share(member, WaitKind::kRunnable, window, true);
  const WaitShare stopped = scene.evidence.share(member, WaitKind::kStopped, window);
  const int64_t own_ns = std::max({on_cpu.covered_ns, blocked.covered_ns, disk.covered_ns});
  // Ranks that share cores with each other take longer for the same work: who has clearly more of it is late by that.
  const bool more_work = on_cpu.covered_ns >= kMoreWorkNs;
  const int64_t hindered_ns = std::max(more_work ? kept.covered_ns : runnable.covered_ns, stopped.covered_ns);
  Explanation opinion{.cause = Cause::kLateRank, .place = {.culprit = member}};
  opinion.coverage = share_of(own_ns, stall.to_explain_ns());
  opinion.applies = opinion.coverage >= kCoverage && share_of(hindered_ns, stall.to_explain_ns()) < kCoverage;
  opinion.why = fmt::format("{} was {} late: {} computing, {} blocked, {} on disk, {} ready but not running",
                            short_name(scene.cluster, member), format_duration(stall.lost_ns),
                            format_duration(on_cpu.covered_ns), format_duration(blocked.covered_ns),
                            format_duration(disk.covered_ns), format_duration(runnable.covered_ns));
  opinion.tallies[{kOnCpu, ""}] = {1, on_cpu.covered_ns, {}};
  opinion.tallies[{kBlocked, ""}] = {1, blocked.covered_ns, {}};
  opinion.tallies[{kDisk, ""}] = {1, disk.covered_ns, {}};
  const Elsewhere call = elsewhere(scene, stall, member, window);
  if (share_of(call.inside_ns, stall.to_explain_ns()) >= kCoverage && on_cpu.covered_ns < blocked.covered_ns) {
    const MemberIndex first = start_of_chain(scene, call, member, window);
    const Lane& lane = scene.timeline.lanes()[call.lane];
    const std::string_view op = display_name(scene.timeline.shape(lane.at_column(call.column)->shape).op);
    const std::string text = fmt::format("inside {} on communicator {}", op, format_hash(lane.hash));
    if (first != kNoMember) {
      opinion.dismissed = true;
      opinion.why += fmt::format("; it waited {}, for {}", text, short_name(scene.cluster, first));
    }
    opinion.tallies[{kElsewhere, fmt::format("{} was {}", short_name(scene.cluster, member), text)}] = {
        1, call.inside_ns, {}};
  }
  out.push_back(std::move(opinion));
}

/// Hiccups make every rank late now and then. Unless one stall is long enough by itself, the late rank must own
/// most of all lateness; the runner-up is left out of the sum, since two ranks may be late for good.
void refine(const Scene& scene, std::vector<Folded>& groups) {
  std::vector<int64_t> costs;
  for (const Folded& group : groups) {
    costs.push_back(group.lost.total_ns());
  }
  std::vector<bool> drop(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    int64_t total_ns = 0;
    int64_t runner_up_ns = 0;
    for (size_t j = 0; j < groups.size(); ++j) {
      total_ns += costs[j];
      runner_up_ns = j == i ? runner_up_ns : std::max(runner_up_ns, costs[j]);
    }
    if (scene.cluster.members().size() <= 2) {
      runner_up_ns = 0;
    }
    drop[i] =
        share_of(costs[i], total_ns - runner_up_ns) < kLateDominance && groups[i].longest_ns < kLateRankGate.single_ns;
    drop[i] = drop[i] || is_settling(scene, groups[i], kLateRankGate) || is_rare_work_of_rank0(scene, groups[i]);
  }
  size_t index = 0;
  std::erase_if(groups, [&](const Folded&) { return drop[index++]; });
}

void tell(const Scene& scene, const Folded& group, Finding& finding) {
  if (tell_late_by_arrival(scene, group, finding)) {
    return;
  }
  const int64_t on_cpu_ns = tally_of(group.tallies, kOnCpu).time_ns;
  const int64_t blocked_ns = tally_of(group.tallies, kBlocked).time_ns;
  const int64_t disk_ns = tally_of(group.tallies, kDisk).time_ns;
  const bool computing = on_cpu_ns >= blocked_ns && on_cpu_ns >= disk_ns;
  const std::string_view doing = computing               ? "computing"
                                 : disk_ns >= blocked_ns ? "waiting for disk"
                                                         : "sleeping or waiting for something else";
  const std::string elsewhere = dearest_detail(group.tallies, kElsewhere);
  finding.summary = fmt::format("{} arrives late, {} while the others wait: {}.",
                                scene.cluster.describe(group.place.culprit), doing, cost_text(group));
  finding.summary[0] = static_cast<char>(std::toupper(finding.summary[0]));
  finding.evidence.push_back(
      {"wait_span",
       static_cast<int64_t>(group.stalls.size()),
       fmt::format("before arriving it was {} for {:.0f} % of the time the others waited, neither stopped "
                   "nor kept from its core",
                   doing, 100 * group.coverage),
       {}});
  if (!elsewhere.empty()) {
    finding.evidence.push_back(
        {"collective", tally_of(group.tallies, kElsewhere).count, fmt::format("meanwhile {}", elsewhere), {}});
  }
  finding.remedy =
      computing ? fmt::format(
                      "see what this rank computes that the others do not: uneven batch or expert load, a slower or "
                      "throttled CPU/GPU on {}, extra work such as logging or evaluation",
                      finding.culprit->node)
                : fmt::format(
                      "see what this rank waits for outside of the collective on {}: data loader, file system, locks, "
                      "a remote service",
                      finding.culprit->node);
}

}  // namespace

const CauseRule kLateRankRule{Cause::kLateRank, kLateRankGate, judge, refine, tell};

}  // namespace stalltrace::analysis
