// SPDX-License-Identifier: Apache-2.0
// late_rank: a rank arrived last by far, and between its previous collective and its arrival it was computing or
// waiting outside of collectives. It was neither stopped nor without a CPU.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "analysis/causes/cause.h"
#include "analysis/causes/profiler_only.h"
#include "analysis/causes/rank/activity.h"
#include "analysis/causes/rank/chance.h"
#include "analysis/causes/rank/elsewhere.h"
#include "analysis/causes/rank/pauses.h"
#include "analysis/evidence/reads/compared_members.h"
#include "analysis/thresholds/bounds.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/gates.h"
#include "analysis/thresholds/ranks.h"
#include "analysis/thresholds/steps.h"
#include "analysis/timeline/instance.h"
#include "base/numbers/median.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

enum class Counted : uint8_t { kOnCpu, kBlocked, kDisk };

/// How a late rank spent the time before its arrival.
struct Spent {
  int64_t on_cpu_ns = 0;
  int64_t blocked_ns = 0;
  int64_t disk_ns = 0;

  [[nodiscard]] bool computing() const { return on_cpu_ns >= blocked_ns && on_cpu_ns >= disk_ns; }
  [[nodiscard]] std::string_view text() const {
    return computing()             ? "computing"
           : disk_ns >= blocked_ns ? "waiting for disk"
                                   : "sleeping or waiting for something else";
  }
};

Spent spent_in(const AnalysisContext& context, const Stall& stall) {
  const MemberIndex member = stall.suspects[0];
  const Interval window = stall.examined();
  const int32_t tid = working_tid(context, member, window, stall.calling_tid());
  return {.on_cpu_ns = context.evidence.share(member, WaitKind::kOnCpu, window).covered_ns,
          .blocked_ns = context.evidence.share(member, WaitKind::kBlocked, window, Competitors::kAll, tid).covered_ns,
          .disk_ns = context.evidence.share(member, WaitKind::kDisk, window, Competitors::kAll, tid).covered_ns};
}

void count(const Spent& spent, EvidenceCounters& counters) {
  counters.at(Counted::kOnCpu) = {1, spent.on_cpu_ns, {}};
  counters.at(Counted::kBlocked) = {1, spent.blocked_ns, {}};
  counters.at(Counted::kDisk) = {1, spent.disk_ns, {}};
}

/// The sum over all stalls of a group.
Spent spent_by(const CauseGroup& group) {
  return {.on_cpu_ns = group.counters.sum(Counted::kOnCpu).time_ns,
          .blocked_ns = group.counters.sum(Counted::kBlocked).time_ns,
          .disk_ns = group.counters.sum(Counted::kDisk).time_ns};
}

/// The stalls caused by work that is typical of rank 0 and rare: the stalls with most of its lateness, if they are few
/// and it computes in them. All stalls if they are few altogether; none if there is no such work.
std::vector<const Stall*> rare_work_of_rank0(const AnalysisContext& context, const CauseGroup& group) {
  if (context.cluster.member(group.location.culprit).rank != 0) {
    return {};
  }
  const int64_t steps = steps_of(context, group, group.location.culprit);
  const bool few = share_of(group.instances, steps) <= kRareShare;
  const std::vector<const Stall*> most = few ? group.stalls : longest_stalls(context, group);
  Spent spent;
  for (const Stall* stall : most) {
    const Spent one = spent_in(context, *stall);
    spent.on_cpu_ns += one.on_cpu_ns;
    spent.blocked_ns += one.blocked_ns;
    spent.disk_ns += one.disk_ns;
  }
  const bool known = spent.on_cpu_ns > 0 || most.size() == group.stalls.size();
  return known && spent.computing() && share_of(static_cast<int64_t>(most.size()), steps) <= kRareShare
             ? most
             : std::vector<const Stall*>();
}

/// Empty if it cost very little.
std::string note_on(const AnalysisContext& context, const CauseGroup& rare, bool worked) {
  const Interval judged = context.judged.value_or(context.timeline.span());
  const double share = share_of(rare.lost.total_ns(), judged.length());
  if (share < kMediumShare && rare.longest_ns < kHighStallNs) {
    return {};
  }
  return fmt::format(
      "{} {} in {} while the others waited, for {} in all ({:.0f} % of the time) and up to {}: that is not counted "
      "as lateness, since rank 0 evaluates and saves now and then",
      context.cluster.describe(rare.location.culprit), worked ? "computed" : "was elsewhere",
      count_of(rare.instances, "collective"), format_duration(rare.lost.total_ns()), 100 * share,
      format_duration(rare.longest_ns));
}

/// Sums up a group of which stalls were removed.
void recount(const AnalysisContext& context, CauseGroup& group) {
  Spent left;
  for (const Stall* stall : group.stalls) {
    const Spent one = spent_in(context, *stall);
    left.on_cpu_ns += one.on_cpu_ns;
    left.blocked_ns += one.blocked_ns;
    left.disk_ns += one.disk_ns;
  }
  count(left, group.counters);
  count_cost(context, group);
}

/// Removes rank 0's rare work from a group; the rest may be empty.
CauseGroup take_out_rare_work(const AnalysisContext& context, CauseGroup& group) {
  CauseGroup rare{.cause = group.cause, .location = group.location, .stalls = rare_work_of_rank0(context, group)};
  if (rare.stalls.empty()) {
    return rare;
  }
  const std::set<const Stall*> taken(rare.stalls.begin(), rare.stalls.end());
  std::erase_if(group.stalls, [&](const Stall* stall) { return taken.contains(stall); });
  recount(context, group);
  count_cost(context, rare);
  rare.note = note_on(context, rare, spent_in(context, *rare.stalls.front()).on_cpu_ns > 0);
  return rare;
}

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  if (stall.part() != StallPart::kLate || stall.suspects.size() != 1 || stall.on_device()) {
    return;
  }
  const MemberIndex member = stall.suspects[0];
  const Elsewhere call = elsewhere(context, stall, member, stall.examined());
  const bool called_elsewhere = share_of(call.inside_ns, stall.to_explain_ns()) >= kCoverage;
  if (!context.evidence.has_waits(member)) {
    const size_t first = out.size();
    judge_late_by_arrival(context, stall, out);
    for (size_t i = first; called_elsewhere && i < out.size(); ++i) {
      follow(context, stall, call, out[i]);
    }
    return;
  }
  const Interval window = stall.examined();
  const Spent spent = spent_in(context, stall);
  const WaitShare runnable = context.evidence.share(member, WaitKind::kRunnable, window, Competitors::kSomething);
  const WaitShare kept = context.evidence.share(member, WaitKind::kRunnable, window, Competitors::kOutsideJob);
  const WaitShare stopped = context.evidence.share(member, WaitKind::kStopped, window);
  // Ranks that share cores take longer for the same work: a rank with clearly more work is late because of it. Where
  // that work alone would be worth a finding, the waits for the job's own processes in between are part of it.
  const bool more_work = spent.on_cpu_ns >= kMoreWorkNs;
  const bool long_work = spent.on_cpu_ns >= kLateRankGate.single_ns;
  const int64_t shared_ns = long_work ? std::max<int64_t>(0, runnable.covered_ns - kept.covered_ns) : 0;
  const int64_t own_ns = std::max({spent.on_cpu_ns + shared_ns, spent.blocked_ns, spent.disk_ns});
  const int64_t hindered_ns = std::max(more_work ? kept.covered_ns : runnable.covered_ns, stopped.covered_ns);
  Hypothesis hypothesis{.cause = Cause::kLateRank, .location = {.culprit = member}};
  hypothesis.coverage = share_of(own_ns, stall.to_explain_ns());
  hypothesis.applies = hypothesis.coverage >= kCoverage && share_of(hindered_ns, stall.to_explain_ns()) < kCoverage;
  hypothesis.why = fmt::format("{} was {} late: {} computing, {} blocked, {} on disk, {} ready but not running",
                               short_name(context.cluster, member), format_duration(stall.lost_ns),
                               format_duration(spent.on_cpu_ns), format_duration(spent.blocked_ns),
                               format_duration(spent.disk_ns), format_duration(runnable.covered_ns));
  count(spent, hypothesis.counters);
  if (called_elsewhere && spent.on_cpu_ns < spent.blocked_ns) {
    follow(context, stall, call, hypothesis);
  }
  out.push_back(std::move(hypothesis));
}

int64_t computed_ns(const AnalysisContext& context, MemberIndex member, const IntervalSet& times) {
  int64_t sum_ns = 0;
  for (const Interval& time : times.intervals()) {
    sum_ns += context.evidence.share(member, WaitKind::kOnCpu, time).covered_ns;
  }
  return sum_ns;
}

/// The stalls on the communicator of the group's first one: of its ranks nothing may have been read in the times of the
/// others, in which they would seem to have computed nothing (Examined::waits_of).
std::vector<const Stall*> comparable_stalls(const CauseGroup& group) {
  std::vector<const Stall*> stalls = group.stalls;
  std::erase_if(stalls, [&](const Stall* stall) { return stall->group != group.stalls.front()->group; });
  return stalls;
}

/// True if the others compute while they wait for these stalls' rank, as where CPUs spin for their devices, or in MPI.
/// That the rank was computing then shows nothing.
bool others_compute(const AnalysisContext& context, const CauseGroup& group) {
  std::vector<int64_t> others_ns;
  const IntervalSet lost = lost_in(context, comparable_stalls(group));
  for (const MemberIndex member : compared_members(group.stalls.front()->members)) {
    if (member != group.location.culprit && context.evidence.has_waits(member)) {
      others_ns.push_back(computed_ns(context, member, lost));
    }
  }
  return !others_ns.empty() && share_of(median(std::move(others_ns)), lost.total_ns()) >= kCoverage;
}

/// True if the rank had no more to compute around these stalls than the middle one of the others: then it is late
/// because it waited for a CPU, also before the others had arrived. False where the others compute while they wait, as
/// MPI does.
bool computed_no_more(const AnalysisContext& context, const CauseGroup& group) {
  if (!context.evidence.has_waits(group.location.culprit) || !spent_by(group).computing()) {
    return false;
  }
  const std::vector<const Stall*> stalls = comparable_stalls(group);
  const IntervalSet lost = lost_in(context, stalls);
  std::vector<Interval> around;
  for (const Stall* stall : stalls) {
    around.push_back({stall->window.from_ns - kEvidenceMarginNs, stall->window.to_ns + kEvidenceMarginNs});
  }
  const IntervalSet times(std::move(around));
  std::vector<int64_t> others_ns;
  std::vector<int64_t> others_waiting_ns;
  for (const MemberIndex member : compared_members(group.stalls.front()->members)) {
    if (member != group.location.culprit && context.evidence.has_waits(member)) {
      others_ns.push_back(computed_ns(context, member, times));
      others_waiting_ns.push_back(computed_ns(context, member, lost));
    }
  }
  const auto half_ns = static_cast<int64_t>(kCoverage * static_cast<double>(lost.total_ns()));
  return !others_ns.empty() && median(std::move(others_waiting_ns)) < half_ns &&
         computed_ns(context, group.location.culprit, times) - median(std::move(others_ns)) < half_ns;
}

/// The groups without what is ordinary in the first instances: by that alone no rank stands out.
std::vector<CauseGroup> without_settling(const AnalysisContext& context, std::vector<CauseGroup> groups) {
  for (CauseGroup& group : groups) {
    if (std::erase_if(group.stalls, [&](const Stall* stall) { return is_settling(context, *stall); }) > 0) {
      recount(context, group);
    }
  }
  return groups;
}

/// The groups without stalls that are long enough to be findings by themselves: these are no hiccups, with which a rank
/// that is late by little each time is compared.
std::vector<CauseGroup> without_long_stalls(const AnalysisContext& context, std::vector<CauseGroup> groups) {
  for (CauseGroup& group : groups) {
    if (std::erase_if(group.stalls, [](const Stall* stall) { return stall->lost_ns >= kLateRankGate.single_ns; }) > 0) {
      count_cost(context, group);
    }
  }
  return groups;
}

/// Hiccups make every rank late now and then. Unless one stall is long enough by itself, the late rank must own most of
/// all lateness, and more than by chance. The second-latest rank is left out of the sum, since two ranks may be late
/// all the time.
void refine(const AnalysisContext& context, std::vector<CauseGroup>& groups) {
  std::vector<CauseGroup> notes;
  for (CauseGroup& group : groups) {
    if (CauseGroup rare = take_out_rare_work(context, group); !rare.note.empty()) {
      notes.push_back(std::move(rare));
    }
  }
  std::erase_if(groups, [](const CauseGroup& group) { return group.stalls.empty(); });
  std::vector<CauseGroup> settled = without_settling(context, groups);
  const std::vector<bool> by_chance = late_by_chance(context, without_long_stalls(context, settled));
  std::vector<bool> drop(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    const bool each_is_short = settled[i].longest_ns < kLateRankGate.single_ns;
    drop[i] = (each_is_short && (by_chance[i] || computed_no_more(context, groups[i]))) ||
              is_settling(context, groups[i], kLateRankGate);
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].longest_ns >= kLateRankGate.single_ns && settled[i].longest_ns < kLateRankGate.single_ns) {
      groups[i] = std::move(settled[i]);  // its longest stall is ordinary: the rest has to be worth a finding
    }
  }
  size_t index = 0;
  std::erase_if(groups, [&](const CauseGroup&) { return drop[index++]; });
  for (CauseGroup& group : groups) {
    group.rare = is_rare_pause(context, group, group.location.culprit);
  }
  std::ranges::move(notes, std::back_inserter(groups));
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  describe_pauses(context, group, finding);
  if (describe_late_by_arrival(context, group, finding)) {
    return;
  }
  const Spent spent = spent_by(group);
  const std::string_view doing = spent.text();
  if (spent.computing() && others_compute(context, group)) {
    finding.confidence = std::min(finding.confidence, kProfilerAloneConfidence);
  }
  const std::string elsewhere = elsewhere_text(group);
  finding.summary = fmt::format("{} arrives late, {} while the others wait: {}.",
                                capitalised(context.cluster.describe(group.location.culprit)), doing, cost_text(group));
  finding.evidence.push_back(
      {"wait_span",
       static_cast<int64_t>(group.stalls.size()),
       fmt::format("before arriving it was {} for {:.0f} % of the time the others waited, neither stopped "
                   "nor kept from its core",
                   doing, 100 * group.coverage),
       {}});
  if (!elsewhere.empty()) {
    finding.evidence.push_back(
        {"collective", elsewhere_counter(group).count, fmt::format("in that time {}", elsewhere), {}});
  }
  finding.remedy =
      spent.computing()
          ? fmt::format(
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
                                     .python_location_in_summary = true,
                                     .hints = {.memory = true}};

}  // namespace stalltrace::analysis
