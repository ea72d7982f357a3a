// SPDX-License-Identifier: Apache-2.0
// late_rank: a rank arrived last by far, and between its previous collective and its arrival it was computing or
// waiting outside of collectives: neither stopped nor kept from the core.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analysis/causes/cause.h"
#include "analysis/causes/profiler_only.h"
#include "analysis/causes/rank/activity.h"
#include "analysis/timeline/instance.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

enum class Counted : uint8_t { kOnCpu, kBlocked, kDisk, kElsewhere };

/// What the rank did before it arrived, over all stalls of a group.
struct Doing {
  bool computing = false;
  std::string_view text;
};

Doing doing_of(const CauseGroup& group) {
  const int64_t on_cpu_ns = group.counters.sum(Counted::kOnCpu).time_ns;
  const int64_t blocked_ns = group.counters.sum(Counted::kBlocked).time_ns;
  const int64_t disk_ns = group.counters.sum(Counted::kDisk).time_ns;
  if (on_cpu_ns >= blocked_ns && on_cpu_ns >= disk_ns) {
    return {true, "computing"};
  }
  return {false, disk_ns >= blocked_ns ? "waiting for disk" : "sleeping or waiting for something else"};
}

/// A call on another communicator in which a rank was for most of a time.
struct Elsewhere {
  uint32_t sequence = 0;
  int64_t column = 0;
  int64_t inside_ns = 0;
};

/// The one that takes most of the window.
Elsewhere elsewhere(const AnalysisContext& context, const Stall& stall, MemberIndex member, Interval window) {
  Elsewhere most;
  for (uint32_t index = 0; index < context.timeline.sequences().size(); ++index) {
    const CallSequence& sequence = context.timeline.sequences()[index];
    if (sequence.member != member || sequence.group == stall.group) {
      continue;
    }
    const auto after = std::partition_point(sequence.calls.begin(), sequence.calls.end(),
                                            [&](const Call& call) { return call.arrival_ns < window.to_ns; });
    for (auto call = after; call != sequence.calls.begin() && after - call < kCallsElsewhere;) {
      --call;
      const int64_t inside_ns = call->present ? intersect({call->arrival_ns, call->end_ns()}, window).length() : 0;
      if (inside_ns > most.inside_ns) {
        most = {index, sequence.first_column() + (call - sequence.calls.begin()), inside_ns};
      }
    }
  }
  return most;
}

/// Another rank that came last to that call, and for whom this one waited there for most of the window: the chain
/// begins with it, in a stall of its own.
MemberIndex start_of_chain(const AnalysisContext& context, const Elsewhere& call, MemberIndex member, Interval window) {
  Instance instance;
  if (!read_instance(context.timeline, context.timeline.sequences()[call.sequence].group, call.column, instance) ||
      share_of(instance.last_arrival_ns - window.from_ns, window.length()) < kCoverage) {
    return kNoMember;
  }
  const MemberIndex last = context.timeline.sequences()[instance.seen.back().sequence].member;
  return last == member ? kNoMember : last;
}

/// Work that is rank 0's by custom, done now and then.
bool is_rare_work_of_rank0(const AnalysisContext& context, const CauseGroup& group) {
  std::set<uint32_t> communicators;
  for (const Stall* stall : group.stalls) {
    communicators.insert(stall->group);
  }
  int64_t instances = 0;
  for (const uint32_t communicator : communicators) {
    for (const ColumnRange& columns : columns_of(context.timeline, context.timeline.groups()[communicator])) {
      instances += columns.end - columns.begin;
    }
  }
  return doing_of(group).computing && context.cluster.member(group.place.culprit).rank == 0 &&
         share_of(group.instances, instances) <= kRareShare;
}

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  judge_late_by_arrival(context, stall, out);
  if (stall.part() != StallPart::kLate || stall.suspects.size() != 1 ||
      !context.evidence.has_waits(stall.suspects[0])) {
    return;
  }
  const MemberIndex member = stall.suspects[0];
  const Interval window = stall.examined();
  const WaitShare on_cpu = context.evidence.share(member, WaitKind::kOnCpu, window);
  const int32_t tid = working_tid(context, member, window, stall.calling_tid());
  const WaitShare blocked = context.evidence.share(member, WaitKind::kBlocked, window, false, tid);
  const WaitShare disk = context.evidence.share(member, WaitKind::kDisk, window, false, tid);
  const WaitShare runnable = context.evidence.share(member, WaitKind::kRunnable, window);
  const WaitShare kept = context.evidence.share(member, WaitKind::kRunnable, window, true);
  const WaitShare stopped = context.evidence.share(member, WaitKind::kStopped, window);
  const int64_t own_ns = std::max({on_cpu.covered_ns, blocked.covered_ns, disk.covered_ns});
  // Ranks that share cores with each other take longer for the same work: who has clearly more of it is late by that.
  const bool more_work = on_cpu.covered_ns >= kMoreWorkNs;
  const int64_t hindered_ns = std::max(more_work ? kept.covered_ns : runnable.covered_ns, stopped.covered_ns);
  Hypothesis hypothesis{.cause = Cause::kLateRank, .place = {.culprit = member}};
  hypothesis.coverage = share_of(own_ns, stall.to_explain_ns());
  hypothesis.applies = hypothesis.coverage >= kCoverage && share_of(hindered_ns, stall.to_explain_ns()) < kCoverage;
  hypothesis.why = fmt::format("{} was {} late: {} computing, {} blocked, {} on disk, {} ready but not running",
                               short_name(context.cluster, member), format_duration(stall.lost_ns),
                               format_duration(on_cpu.covered_ns), format_duration(blocked.covered_ns),
                               format_duration(disk.covered_ns), format_duration(runnable.covered_ns));
  hypothesis.counters.at(Counted::kOnCpu) = {1, on_cpu.covered_ns, {}};
  hypothesis.counters.at(Counted::kBlocked) = {1, blocked.covered_ns, {}};
  hypothesis.counters.at(Counted::kDisk) = {1, disk.covered_ns, {}};
  const Elsewhere call = elsewhere(context, stall, member, window);
  if (share_of(call.inside_ns, stall.to_explain_ns()) >= kCoverage && on_cpu.covered_ns < blocked.covered_ns) {
    const MemberIndex first = start_of_chain(context, call, member, window);
    const CallSequence& sequence = context.timeline.sequences()[call.sequence];
    const std::string_view op = display_name(context.timeline.signature(sequence.at_column(call.column)->signature).op);
    const std::string text = fmt::format("inside {} on communicator {}", op, format_hash(sequence.hash));
    if (first != kNoMember) {
      hypothesis.dismissed = true;
      hypothesis.why += fmt::format("; it waited {}, for {}", text, short_name(context.cluster, first));
    }
    hypothesis.counters.at(Counted::kElsewhere, fmt::format("{} was {}", short_name(context.cluster, member), text)) = {
        1, call.inside_ns, {}};
  }
  out.push_back(std::move(hypothesis));
}

/// Hiccups make every rank late now and then. Unless one stall is long enough by itself, the late rank must own
/// most of all lateness; the runner-up is left out of the sum, since two ranks may be late all the time.
void refine(const AnalysisContext& context, std::vector<CauseGroup>& groups) {
  std::vector<int64_t> costs;
  for (const CauseGroup& group : groups) {
    costs.push_back(group.lost.total_ns());
  }
  const auto ranks =
      std::ranges::count_if(context.cluster.members(), [&](const Member& member) { return context.concerns(member); });
  std::vector<bool> drop(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    int64_t total_ns = 0;
    int64_t runner_up_ns = 0;
    for (size_t j = 0; j < groups.size(); ++j) {
      total_ns += costs[j];
      runner_up_ns = j == i ? runner_up_ns : std::max(runner_up_ns, costs[j]);
    }
    if (ranks <= 2) {
      runner_up_ns = 0;
    }
    drop[i] =
        share_of(costs[i], total_ns - runner_up_ns) < kLateDominance && groups[i].longest_ns < kLateRankGate.single_ns;
    drop[i] = drop[i] || is_settling(context, groups[i], kLateRankGate) || is_rare_work_of_rank0(context, groups[i]);
  }
  size_t index = 0;
  std::erase_if(groups, [&](const CauseGroup&) { return drop[index++]; });
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  if (describe_late_by_arrival(context, group, finding)) {
    return;
  }
  const auto [computing, doing] = doing_of(group);
  const std::string elsewhere = group.counters.longest_detail(Counted::kElsewhere);
  finding.summary = fmt::format("{} arrives late, {} while the others wait: {}.",
                                capitalised(context.cluster.describe(group.place.culprit)), doing, cost_text(group));
  finding.evidence.push_back(
      {"wait_span",
       static_cast<int64_t>(group.stalls.size()),
       fmt::format("before arriving it was {} for {:.0f} % of the time the others waited, neither stopped "
                   "nor kept from its core",
                   doing, 100 * group.coverage),
       {}});
  if (!elsewhere.empty()) {
    finding.evidence.push_back(
        {"collective", group.counters.sum(Counted::kElsewhere).count, fmt::format("in that time {}", elsewhere), {}});
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

extern const CauseRule kLateRankRule{.cause = Cause::kLateRank,
                                     .gate = kLateRankGate,
                                     .needs = "no rank was awaited while it computed or waited outside of collectives",
                                     .judge = judge,
                                     .refine = refine,
                                     .describe = describe,
                                     .hints = {.memory = true}};

}  // namespace stalltrace::analysis
