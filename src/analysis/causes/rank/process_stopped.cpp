// SPDX-License-Identifier: Apache-2.0
// process_stopped: a rank's threads were stopped (SIGSTOP, a debugger, a freezer) for most of the stall.
#include <fmt/format.h>

#include "analysis/causes/cause.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/gates.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

enum class Counted : uint8_t { kStillStopped };

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  for (const MemberIndex member : stall.suspects) {
    const WaitShare stopped = context.evidence.share(member, WaitKind::kStopped, stall.examined());
    if (stopped.covered_ns == 0) {
      continue;
    }
    Hypothesis hypothesis{.cause = Cause::kProcessStopped, .location = {.culprit = member}};
    hypothesis.coverage = share_of(stopped.covered_ns, stall.to_explain_ns());
    hypothesis.applies = hypothesis.coverage >= kCoverage;
    hypothesis.why = fmt::format("{} was stopped for {} of {}", short_name(context.cluster, member),
                                 format_duration(stopped.covered_ns), format_duration(stall.to_explain_ns()));
    hypothesis.counters.at(Counted::kStillStopped).count = stopped.open ? 1 : 0;
    out.push_back(std::move(hypothesis));
  }
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const bool still = group.counters.sum(Counted::kStillStopped).count > 0 && group.hung;
  finding.summary = fmt::format(
      "{} {} stopped (SIGSTOP, debugger or freezer), not computing and not communicating: {}.",
      capitalised(context.cluster.describe(group.location.culprit)), still ? "is" : "was", cost_text(group));
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

extern const CauseRule kProcessStoppedRule{.cause = Cause::kProcessStopped,
                                           .gate = kProcessStoppedGate,
                                           .needs = "no rank in question was stopped",
                                           .judge = judge,
                                           .describe = describe,
                                           .python_location_in_summary = true};

}  // namespace stalltrace::analysis
