// SPDX-License-Identifier: Apache-2.0
// dead_rank: a rank's process ended while others were inside a collective. Of several deaths the first is reported: the
// others' watchdogs end them because of it.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "analysis/causes/cause.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  if (stall.root().kind != HangKind::kDead) {
    return;
  }
  const Member& member = context.cluster.member(stall.root().member);
  Hypothesis hypothesis{.cause = Cause::kDeadRank, .place = {.culprit = stall.root().member}};
  const int64_t alone_ns = stall.window.to_ns - std::max(*member.exit_ns, stall.window.from_ns);
  hypothesis.coverage = share_of(alone_ns, stall.window.length());
  hypothesis.applies = hypothesis.coverage >= kCoverage;
  hypothesis.why = fmt::format("{} had ended for {} of {}", short_name(context.cluster, stall.root().member),
                               format_duration(alone_ns), format_duration(stall.window.length()));
  out.push_back(std::move(hypothesis));
}

void add_later_deaths(const AnalysisContext& context, const Member& first, Finding& finding) {
  for (size_t i = 0; i < context.cluster.members().size(); ++i) {
    const Member& other = context.cluster.members()[i];
    if (other.exit_ns && context.concerns(other) && *other.exit_ns > *first.exit_ns &&
        *other.exit_ns - *first.exit_ns < kDeathsApartNs) {
      finding.evidence.push_back({"process_exit",
                                  1,
                                  fmt::format("{} {}, {} later", context.cluster.describe(static_cast<MemberIndex>(i)),
                                              other.how_it_ended(), format_duration(*other.exit_ns - *first.exit_ns)),
                                  {}});
    }
  }
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const Member& member = context.cluster.member(group.place.culprit);
  finding.summary =
      fmt::format("{} {} while others were inside collectives: {}.",
                  capitalised(context.cluster.describe(group.place.culprit)), member.how_it_ended(), cost_text(group));
  finding.evidence.push_back({"process_exit",
                              1,
                              fmt::format("{} {}; no other process had ended before",
                                          short_name(context.cluster, group.place.culprit), member.how_it_ended()),
                              {}});
  if (member.oom_killed) {
    finding.evidence.push_back(
        {"mark_victim", 1, fmt::format("the kernel chose pid {} to free memory", member.pid), {}});
  }
  add_later_deaths(context, member, finding);
  finding.evidence.push_back(waiting_evidence(context, *group.stalls.front()));
  finding.remedy =
      member.oom_killed ? fmt::format(
                              "see what filled the memory of {} or of the process's cgroup (dmesg names the limit): a "
                              "larger memory limit, fewer data loader workers, a smaller batch on the host side",
                              member.node)
      : member.exit_signal == SIGKILL
          ? fmt::format(
                "see who killed pid {} on {}: the kernel because memory ran out (dmesg, memory.events of its "
                "cgroup), the scheduler, a person",
                member.pid, member.node)
          : fmt::format("read the log of pid {} on {} first: the other ranks' errors follow from its end", member.pid,
                        member.node);
}

}  // namespace

extern const CauseRule kDeadRankRule{.cause = Cause::kDeadRank,
                                     .gate = kHangGate,
                                     .needs = "no rank that the others waited for had ended",
                                     .judge = judge,
                                     .describe = describe,
                                     .ends_jobs = true};

}  // namespace stalltrace::analysis
