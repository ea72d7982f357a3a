// SPDX-License-Identifier: Apache-2.0
// process_stopped: a rank's threads were stopped (SIGSTOP, a debugger, a freezer) for most of the stall.
#include <fmt/format.h>

#include "analysis/causes/cause.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr const char* kStopped = "stopped";
constexpr const char* kStillStopped = "still stopped";

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  for (const MemberIndex member : stall.suspects) {
    const WaitShare stopped = context.evidence.share(member, WaitKind::kStopped, stall.examined());
    if (stopped.covered_ns == 0) {
      continue;
    }
    Hypothesis hypothesis{.cause = Cause::kProcessStopped, .place = {.culprit = member}};
    hypothesis.coverage = share_of(stopped.covered_ns, stall.to_explain_ns());
    hypothesis.applies = hypothesis.coverage >= kCoverage;
    hypothesis.why = fmt::format("{} was stopped for {} of {}", short_name(context.cluster, member),
                                 format_duration(stopped.covered_ns), format_duration(stall.to_explain_ns()));
    hypothesis.counters[{kStopped, ""}] = {1, stopped.covered_ns, {}};
    if (stopped.open) {
      hypothesis.counters[{kStillStopped, ""}] = {1, stopped.covered_ns, {}};
    }
    out.push_back(std::move(hypothesis));
  }
}

void tell(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const bool still = tally_of(group.counters, kStillStopped).count > 0 && group.hung;
  finding.summary =
      fmt::format("{} {} stopped (SIGSTOP, debugger or freezer), not computing and not communicating: {}.",
                  context.cluster.describe(group.place.culprit), still ? "is" : "was", cost_text(group));
  finding.summary[0] = static_cast<char>(std::toupper(finding.summary[0]));
  finding.evidence.push_back(
      {"wait_span",
       static_cast<int64_t>(group.stalls.size()),
       fmt::format("its threads were in the stopped state for {:.0f} % of the stalled time, longest stall {}",
                   100 * group.coverage, format_duration(group.longest_ns)),
       {}});
  finding.remedy = fmt::format(
      "{}find out who stopped pid {} on {} (kill -STOP, a debugger or core dump tool attached, a cgroup freezer, job "
      "preemption by the scheduler)",
      still ? "continue it with kill -CONT, then " : "", finding.culprit->pid, finding.culprit->node);
}

}  // namespace

const CauseRule kProcessStoppedRule{Cause::kProcessStopped, kProcessStoppedGate, judge, nullptr, tell};

}  // namespace stalltrace::analysis
