// SPDX-License-Identifier: Apache-2.0
// cpu_contention: a rank's threads were ready to run while something else had the core. Arrival as a late arrival
// when it hits the calling thread, as a slow transfer when it hits the network thread.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/causes/cause.h"
#include "analysis/causes/network/drops.h"
#include "analysis/causes/rank/activity.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr const char* kRunnable = "runnable";
constexpr const char* kThrottled = "throttled";
constexpr const char* kOutsiders = "outsiders";

/// What the middle rank of the instance suffered in the same time.
int64_t middle_share_ns(const AnalysisContext& context, const Stall& stall, MemberIndex but) {
  std::vector<int64_t> shares;
  for (const MemberIndex member : stall.members) {
    if (member != but) {
      shares.push_back(context.evidence.share(member, WaitKind::kRunnable, stall.examined(), true).covered_ns);
    }
  }
  if (shares.empty()) {
    return 0;
  }
  const auto middle = shares.begin() + static_cast<int64_t>(shares.size() / 2);
  std::nth_element(shares.begin(), middle, shares.end());
  return *middle;
}

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  for (const MemberIndex member : stall.suspects) {
    const WaitShare all = context.evidence.share(member, WaitKind::kRunnable, stall.examined());
    if (all.covered_ns == 0) {
      continue;
    }
    const WaitShare outside = context.evidence.share(member, WaitKind::kRunnable, stall.examined(), true);
    const int64_t others_ns = middle_share_ns(context, stall, member);
    const bool stands_out =
        static_cast<double>(outside.covered_ns) >= kContentionContrast * static_cast<double>(others_ns);
    const double all_share = share_of(all.covered_ns, stall.to_explain_ns());
    Hypothesis hypothesis{.cause = Cause::kCpuContention, .place = {.culprit = member}};
    hypothesis.coverage = share_of(outside.covered_ns, stall.to_explain_ns());
    hypothesis.applies = hypothesis.coverage >= kCoverage && stands_out;
    const WaitShare* told = &outside;
    if (!hypothesis.applies && all_share >= kCoverage) {
      const bool short_stall =
          !stall.hung() && stall.part() != StallPart::kAbsent && stall.lost_ns < kCpuContentionGate.single_ns;
      told = &all;
      hypothesis.coverage = all_share;
      hypothesis.applies = short_stall || all_share >= kInternalContentionCoverage;
      hypothesis.dismissed = short_stall;
    }
    const Member& who = context.cluster.member(member);
    const auto throttling = context.evidence.host().throttling(who.node_id, who.pid, stall.examined());
    if (share_of(throttling.throttled_ns, stall.to_explain_ns()) >= kCoverage && all_share >= kCoverage) {
      told = &all;
      hypothesis.coverage = all_share;
      hypothesis.applies = true;
      hypothesis.dismissed = false;
      hypothesis.counters[{kThrottled, throttling.cgroup}] = {1, throttling.throttled_ns, {}};
    }
    hypothesis.why = fmt::format(
        "{} was ready but not running for {} of {}, {} of it behind programs outside of the job ({})",
        short_name(context.cluster, member), format_duration(all.covered_ns), format_duration(stall.to_explain_ns()),
        format_duration(outside.covered_ns), told->competitor.empty() ? "name unknown" : told->competitor);
    hypothesis.counters[{kOutsiders, ""}] = {outside.occasions, outside.covered_ns, {}};
    hypothesis.counters[{kRunnable, told->competitor}] = {told->occasions, told->covered_ns, {}};
    out.push_back(std::move(hypothesis));
  }
}

/// While a job warms up, its own ranks and threads get in each other's way where they share cores.
void refine(const AnalysisContext& context, std::vector<CauseGroup>& groups) {
  std::erase_if(groups, [&](const CauseGroup& group) {
    const bool by_itself =
        tally_of(group.counters, kThrottled).time_ns == 0 &&
        2 * tally_of(group.counters, kOutsiders).time_ns < tally_of(group.counters, kRunnable).time_ns;
    return by_itself && is_settling(context, group, kCpuContentionGate);
  });
}

void tell_throttled(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const std::string cgroup = dearest_detail(group.counters, kThrottled);
  const Member& member = context.cluster.member(group.place.culprit);
  int64_t throttled_ns = 0;  // each time once, however many stalls overlap
  const IntervalSet times = time_of(group);
  for (const Interval& time : times.intervals()) {
    throttled_ns += context.evidence.host().throttling(member.node_id, member.pid, time).throttled_ns;
  }
  finding.summary =
      fmt::format("{} was not allowed to run: its cgroup {} had used up its CPU time and was throttled: {}.",
                  capitalised(context.cluster.describe(group.place.culprit)), cgroup, cost_text(group));
  finding.evidence.push_back(
      {"host_sample",
       tally_of(group.counters, kThrottled).count,
       fmt::format("the cgroup was throttled for {} (cpu.stat), and the busiest thread was ready but not running for "
                   "{:.0f} % of the stalled time",
                   format_duration(throttled_ns), 100 * group.coverage),
       {}});
  finding.remedy = fmt::format(
      "raise or lift the CPU limit of {} on {} (cpu.max, cpu.cfs_quota_us; in Kubernetes the container's CPU limit), "
      "or "
      "start fewer threads in it",
      cgroup, finding.culprit->node);
}

void tell(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  if (2 * tally_of(group.counters, kThrottled).time_ns >= tally_of(group.counters, kRunnable).time_ns) {
    tell_throttled(context, group, finding);
    return;
  }
  const std::string name = dearest_detail(group.counters, kRunnable);
  const EvidenceCounter runnable = tally_of(group.counters, kRunnable);
  const std::string who = name.empty() ? "something else" : fmt::format("'{}'", name);
  finding.summary = fmt::format("{} could not run because {} had its core: {}.",
                                context.cluster.describe(group.place.culprit), who, cost_text(group));
  finding.summary[0] = static_cast<char>(std::toupper(finding.summary[0]));
  finding.evidence.push_back(
      {"sched_switch", runnable.count,
       fmt::format("its busiest thread was ready but not running for {:.0f} % of the stalled time while {} ran",
                   100 * group.coverage, who),
       runnable.events});
  finding.remedy = fmt::format(
      "move or end {} on {}, or give the rank cores of its own (taskset, cgroup cpuset, the scheduler's exclusive "
      "mode); "
      "check that ranks are not pinned to the same core",
      who, finding.culprit->node);
}

}  // namespace

const CauseRule kCpuContentionRule{Cause::kCpuContention, kCpuContentionGate, judge, refine, tell};

}  // namespace stalltrace::analysis
