// SPDX-License-Identifier: Apache-2.0
// cpu_contention: a rank's threads were ready to run while something else had the core. If the calling thread is
// affected, the rank arrives late; if the network thread is affected, the transfer is slow.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "analysis/causes/cause.h"
#include "analysis/causes/rank/activity.h"
#include "analysis/evidence/reads/compared_members.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/gates.h"
#include "analysis/thresholds/ranks.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

/// Time of the programs that had the core: by name in kRunnable, by process in kProcess, for the job itself in
/// kOfTheJob.
enum class Counted : uint8_t { kRunnable, kThrottled, kOutsiders, kProcess, kOfTheJob };

/// A process as the detail of a counter: its number, a blank, its name.
std::string process_detail(const std::string& name, int32_t pid) { return fmt::format("{} {}", pid, name); }

/// True if at least half of the rank's CPU waits are `part`.
bool is_half_of_runnable(const CauseGroup& group, Counted part) {
  return static_cast<double>(group.counters.sum(part).time_ns) >=
         kContentionMainShare * static_cast<double>(group.counters.sum(Counted::kRunnable).time_ns);
}

/// The waits of the ranks of a stall, or of some of them, in its time: one reading for all that are compared with them.
class OthersWaits {
 public:
  OthersWaits(const AnalysisContext& context, const Stall& stall) : members_(compared_members(stall.members)) {
    for (const MemberIndex member : members_) {
      shares_ns_.push_back(
          context.evidence.share(member, WaitKind::kRunnable, stall.examined(), Competitors::kOutsideJob).covered_ns);
    }
    sorted_ns_ = shares_ns_;
    std::ranges::sort(sorted_ns_);
  }

  /// That of the middle one without `but`.
  [[nodiscard]] int64_t middle_ns(MemberIndex but) const {
    const auto own = std::ranges::find(members_, but);
    const size_t others = members_.size() - (own == members_.end() ? 0 : 1);
    if (others == 0) {
      return 0;
    }
    const size_t middle = others / 2;
    if (own == members_.end()) {
      return sorted_ns_[middle];
    }
    const auto position = std::ranges::lower_bound(sorted_ns_, shares_ns_[static_cast<size_t>(own - members_.begin())]);
    return middle < static_cast<size_t>(position - sorted_ns_.begin()) ? sorted_ns_[middle] : sorted_ns_[middle + 1];
  }

 private:
  std::vector<MemberIndex> members_;
  std::vector<int64_t> shares_ns_;  // by member
  std::vector<int64_t> sorted_ns_;
};

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  std::optional<OthersWaits> others;
  for (const MemberIndex member : stall.suspects) {
    const WaitShare ready = context.evidence.share(member, WaitKind::kRunnable, stall.examined());
    if (ready.covered_ns == 0) {
      continue;
    }
    const WaitShare all =
        context.evidence.share(member, WaitKind::kRunnable, stall.examined(), Competitors::kSomething);
    const WaitShare outside =
        context.evidence.share(member, WaitKind::kRunnable, stall.examined(), Competitors::kOutsideJob);
    if (!others) {
      others.emplace(context, stall);
    }
    const int64_t others_ns = others->middle_ns(member);
    const bool stands_out =
        static_cast<double>(outside.covered_ns) >= kContentionContrast * static_cast<double>(others_ns);
    const double all_share = share_of(all.covered_ns, stall.to_explain_ns());
    Hypothesis hypothesis{.cause = Cause::kCpuContention, .location = {.culprit = member}};
    hypothesis.coverage = share_of(outside.covered_ns, stall.to_explain_ns());
    hypothesis.applies = hypothesis.coverage >= kCoverage && stands_out;
    const WaitShare* counted = &outside;
    if (!hypothesis.applies && all_share >= kCoverage) {
      const bool short_stall =
          !stall.hung() && stall.part() != StallPart::kAbsent && stall.lost_ns < kCpuContentionGate.single_ns;
      counted = &all;
      hypothesis.coverage = all_share;
      hypothesis.applies = short_stall || all_share >= kInternalContentionCoverage;
      hypothesis.dismissed = short_stall;
    }
    const Member& who = context.cluster.member(member);
    const auto throttling = context.evidence.host().throttling(who.node_id, who.pid, stall.examined());
    const double ready_share = share_of(ready.covered_ns, stall.to_explain_ns());
    if (share_of(throttling.throttled_ns, stall.to_explain_ns()) >= kCoverage && ready_share >= kCoverage) {
      counted = &ready;
      hypothesis.coverage = ready_share;
      hypothesis.applies = true;
      hypothesis.dismissed = false;
      hypothesis.counters.at(Counted::kThrottled, throttling.cgroup) = {1, throttling.throttled_ns, {}};
    }
    // The examined time is longer than the lost one: of what was examined no more counts than was lost.
    const int64_t most_ns = stall.to_explain_ns();
    hypothesis.why = fmt::format(
        "{} was ready but not running for {} of {}, {} of it behind programs outside of the job; mostly behind {}",
        short_name(context.cluster, member), format_duration(std::min(ready.covered_ns, most_ns)),
        format_duration(most_ns), format_duration(std::min(outside.covered_ns, most_ns)),
        counted->competitor.empty() ? "something whose name is not known" : counted->competitor);
    hypothesis.counters.at(Counted::kOutsiders) = {outside.occasions, outside.covered_ns, {}};
    hypothesis.counters.at(Counted::kRunnable, counted->competitor) = {counted->occasions, counted->covered_ns, {}};
    if (!counted->competitor.empty() && counted->competitor_pid != 0) {
      hypothesis.counters.at(Counted::kProcess, process_detail(counted->competitor, counted->competitor_pid)).time_ns =
          counted->covered_ns;
    }
    hypothesis.counters.at(Counted::kOfTheJob).time_ns = counted->competitor_belongs ? counted->covered_ns : 0;
    out.push_back(std::move(hypothesis));
  }
}

/// While a job warms up, its own ranks and threads compete for shared cores.
void refine(const AnalysisContext& context, std::vector<CauseGroup>& groups) {
  std::erase_if(groups, [&](const CauseGroup& group) {
    const bool by_itself =
        group.counters.sum(Counted::kThrottled).time_ns == 0 && !is_half_of_runnable(group, Counted::kOutsiders);
    return by_itself && is_settling(context, group, kCpuContentionGate);
  });
}

void describe_throttled(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const std::string cgroup = group.counters.longest_detail(Counted::kThrottled);
  const Member& member = context.cluster.member(group.location.culprit);
  int64_t throttled_ns = 0;  // overlapping stalls count once
  const IntervalSet times = time_of(group);
  for (const Interval& time : times.intervals()) {
    throttled_ns += context.evidence.host().throttling(member.node_id, member.pid, time).throttled_ns;
  }
  finding.summary =
      fmt::format("{} was not allowed to run: its cgroup {} had used up its CPU time and was throttled: {}.",
                  capitalised(context.cluster.describe(group.location.culprit)), cgroup, cost_text(group));
  finding.evidence.push_back(
      {"host_sample",
       group.counters.sum(Counted::kThrottled).count,
       fmt::format("the cgroup was throttled for {} (cpu.stat), and the busiest thread was ready but not running for "
                   "{:.0f} % of the stalled time",
                   format_duration(throttled_ns), 100 * group.coverage),
       {}});
  finding.remedy = fmt::format(
      "raise or lift the CPU limit of {} on {} (cpu.max, cpu.cfs_quota_us; in Kubernetes the container's CPU limit), "
      "or start fewer threads in it",
      cgroup, finding.culprit->node);
}

/// A program that had the core, for use in sentences.
struct CompetitorTexts {
  std::string name;    // "'python3 preprocess.py' (pid 4711)"
  std::string detail;  // the same with its cgroup
};

/// A command line has up to 4 KiB, and a cgroup's path any length. Most fit into these.
constexpr size_t kShownCommandBytes = 120;
constexpr size_t kShownCgroupBytes = 256;

/// By what is recorded of the process, else by its name.
CompetitorTexts texts_of_process(const AnalysisContext& context, const CauseGroup& group, std::string_view name,
                                 std::string_view pid) {
  TimeRange time{kForever, 0};
  for (const Stall* stall : group.stalls) {
    time.from_ns = std::min(time.from_ns, stall->examined().from_ns);
    time.to_ns = std::max(time.to_ns, stall->examined().to_ns);
  }
  const NodeId node = context.cluster.member(group.location.culprit).node_id;
  const Competitor* known =
      context.cluster.competitor(node, static_cast<int32_t>(parse_integer(pid).value_or(0)), time);
  const std::string_view whole = known == nullptr || known->cmdline.empty() ? name : std::string_view(known->cmdline);
  const std::string command = cut_text(whole, kShownCommandBytes);
  const std::string cgroup =
      known == nullptr || known->cgroup.empty() ? "" : ", cgroup " + cut_text(known->cgroup, kShownCgroupBytes);
  return {fmt::format("'{}' (pid {})", command, pid), fmt::format("'{}' (pid {}{})", command, pid, cgroup)};
}

/// One process if it had the core for most of the time, else the name that its processes share.
CompetitorTexts competitor_texts(const AnalysisContext& context, const CauseGroup& group) {
  const EvidenceCounters::Detail process = group.counters.longest(Counted::kProcess);
  const std::string name = group.counters.longest_detail(Counted::kRunnable);
  const std::string_view detail(process.detail);
  const std::string_view pid = detail.substr(0, detail.find(' '));
  if (!name.empty() && detail.substr(std::min(pid.size() + 1, detail.size())) == name &&
      static_cast<double>(process.time_ns) >=
          kContentionMainShare * static_cast<double>(group.counters.sum(Counted::kRunnable).time_ns)) {
    return texts_of_process(context, group, name, pid);
  }
  const std::string text = name.empty() ? "something else" : fmt::format("'{}'", name);
  return {text, text};
}

/// The competitor may be the training itself, which must then not be ended.
std::string remedy_text(const CauseGroup& group, const std::string& who, const std::string& node) {
  const std::string cores =
      "give each rank cores of its own (taskset, cgroup cpuset, the scheduler's exclusive mode); check that ranks are "
      "not pinned to the same core";
  if (is_half_of_runnable(group, Counted::kOfTheJob)) {
    return fmt::format(
        "{} may belong to the job: {}, and that its processes start no more threads than they have cores "
        "(OMP_NUM_THREADS, data-loader workers)",
        capitalised(who), cores);
  }
  return fmt::format("move or end {} on {}, or {}", who, node, cores);
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  if (is_half_of_runnable(group, Counted::kThrottled)) {
    describe_throttled(context, group, finding);
    return;
  }
  const EvidenceCounter runnable = group.counters.sum(Counted::kRunnable);
  const CompetitorTexts who = competitor_texts(context, group);
  finding.summary =
      fmt::format("{} could not run because {} had its core: {}.",
                  capitalised(context.cluster.describe(group.location.culprit)), who.name, cost_text(group));
  finding.evidence.push_back(
      {"sched_switch", runnable.count,
       fmt::format("its busiest thread was ready but not running for {:.0f} % of the stalled time while {} ran",
                   100 * group.coverage, who.detail),
       runnable.events});
  finding.remedy = remedy_text(group, who.name, finding.culprit->node);
}

}  // namespace

extern const CauseRule kCpuContentionRule{.cause = Cause::kCpuContention,
                                          .gate = kCpuContentionGate,
                                          .needs = "no thread of the ranks in question was ready without running",
                                          .judge = judge,
                                          .refine = refine,
                                          .describe = describe,
                                          .hints = {.memory = true}};

}  // namespace stalltrace::analysis
