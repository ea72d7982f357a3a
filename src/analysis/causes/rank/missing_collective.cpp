// SPDX-License-Identifier: Apache-2.0
// missing_collective: ranks are inside an instance that another, living rank did not enter. That rank is outside of all
// calls, or waits inside another call. The chain of waits is described from its start.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "analysis/advice.h"
#include "analysis/causes/library_advice.h"
#include "analysis/causes/open_wait.h"
#include "analysis/causes/rank/activity.h"
#include "analysis/stalls/hangs/launch_habits.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/gates.h"
#include "analysis/thresholds/steps.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

enum class Counted : uint8_t { kCycle };

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  if (stall.root().kind != HangKind::kOutside && stall.root().kind != HangKind::kCycle) {
    return;
  }
  Hypothesis hypothesis{.cause = Cause::kMissingCollective, .location = {.culprit = stall.root().member}};
  hypothesis.coverage = 1;
  hypothesis.applies = true;
  if (stall.root().kind == HangKind::kCycle) {
    hypothesis.counters.at(Counted::kCycle).count = 1;
    hypothesis.why = "ranks wait for each other in different calls";
  } else {
    hypothesis.why = stall.majority_absent()
                         ? "more ranks are absent than came"
                         : fmt::format("{} is in no call", short_name(context.cluster, stall.root().member));
  }
  out.push_back(std::move(hypothesis));
}

/// The cost of a wait that is not proven to be a hang: "the others have waited for 3.2 s, 40 times the longest wait
/// before (80 ms)".
std::string wait_text(const AnalysisContext& context, const CauseGroup& group, std::string_view who,
                      std::string_view have) {
  if (std::ranges::any_of(group.stalls, [](const Stall* stall) { return stall->ended_job(); })) {
    return cost_text(group);
  }
  const int64_t before_ns = longest_wait_before_ns(context, nearest(group));
  const std::string waited = fmt::format("{}{} waited for {}", who, processes_ended(context, group) ? "" : have,
                                         format_duration(group.longest_ns));
  if (before_ns < kNsPerMs) {
    return waited;
  }
  const auto times = static_cast<double>(group.longest_ns) / static_cast<double>(before_ns);
  return times >= 2
             ? fmt::format("{}, {:.0f} times the longest wait before ({})", waited, times, format_duration(before_ns))
             : fmt::format("{}; the longest wait before was {}", waited, format_duration(before_ns));
}

/// The absent rank is at work, as in an evaluation or a compilation.
bool computes(const AnalysisContext& context, const CauseGroup& group) {
  const Stall& stall = nearest(group);
  return group.location.culprit != kNoMember && !stall.majority_absent() &&
         is_computing(activity_of(context, group.location.culprit, stall.examined(), stall.calling_tid()));
}

bool may_end(const AnalysisContext& context, const CauseGroup& group) {
  return group.counters.sum(Counted::kCycle).count == 0 && may_still_come(context, group, computes(context, group));
}

void add_steps(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  std::set<std::string> known;
  for (const Stall* stall : group.stalls) {
    for (const HangStep& step : stall->root().path) {
      if (std::string text = step_text(context, step); known.size() < kMostSteps && known.insert(text).second) {
        finding.evidence.push_back({"collective", 1, std::move(text), {}});
      }
    }
  }
}

void describe_cycle(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  finding.summary =
      fmt::format("Ranks wait for each other in different calls, a deadlock{}: {}.",
                  group.location.culprit == kNoMember
                      ? ""
                      : fmt::format(" ({} differs from the others)", context.cluster.describe(group.location.culprit)),
                  cost_text(group));
  const auto launched = [&](const HangStep& step) { return context.timeline.sequences()[step.sequence].ends_unseen(); };
  if (nearest(group).root().concluded) {
    finding.evidence.push_back(
        {"collective",
         1,
         fmt::format("{} called on two communicators in another order than in the steps before, and no "
                     "other rank did; none of the step's calls has ended",
                     short_name(context.cluster, group.location.culprit)),
         {}});
  }
  // That these are what their devices hang in is concluded.
  if (nearest(group).root().concluded || std::ranges::any_of(nearest(group).root().path, launched)) {
    finding.confidence = std::min(finding.confidence, kLaunchOrderConfidence);
  }
  finding.remedy = fmt::format("let all ranks call collectives of several communicators in one order, and {}",
                               advice_for(library_of(context.timeline, group.stalls.front()->group)).group_calls);
}

void describe_absent_majority(const AnalysisContext& context, const CauseGroup& group, const Stall& stall,
                              Finding& finding) {
  const std::string call = call_text(context, stall);
  finding.summary =
      group.location.culprit == kNoMember
          ? fmt::format("Only some ranks have entered {}: {}.", call, wait_text(context, group, "they", " have"))
          : fmt::format("{} has entered {} alone, the others have not: {}.",
                        capitalised(context.cluster.describe(group.location.culprit)), call,
                        wait_text(context, group, "it", " has"));
  finding.remedy = kLookForUnevenCalls;
}

void describe_absent(const AnalysisContext& context, const CauseGroup& group, const Stall& stall, Finding& finding) {
  const MemberIndex member = group.location.culprit;
  const Activity activity = activity_of(context, member, stall.examined(), stall.calling_tid());
  const bool over = processes_ended(context, group);
  finding.summary =
      fmt::format("{} {} alive, {}, and {} not entered {}{}: {}.", capitalised(context.cluster.describe(member)),
                  over ? "was" : "is", doing(activity), over ? "had" : "has", call_text(context, stall),
                  stall.root().path.empty() ? "" : ", where a chain of waiting ranks begins",
                  wait_text(context, group, "the others", " have"));
  finding.evidence.push_back(activity_evidence(context, member, activity));
  if (const auto habit = launch_habit(context.timeline, member)) {  // it has stopped in the middle of a step
    finding.confidence = std::min(finding.confidence, kStoppedInStepConfidence);
    finding.evidence.push_back(
        {"collective",
         habit->launched,
         fmt::format("{} launched {} since its last synchronisation, which all ranks launched, and has never "
                     "synchronised after as many",
                     short_name(context.cluster, member), count_of(habit->launched, "call")),
         {}});
  }
  if (!activity.known) {  // it may be stopped
    finding.confidence = std::min(finding.confidence, kProfilerAloneConfidence);
  }
  if (const RaisedException* raised = context.raised.of(member, stall.window.from_ns, stall.window.to_ns)) {
    finding.summary += fmt::format(" {} raised {}{}.", raised->in_main ? "It" : "A thread of it", raised->brief(),
                                   raised->in_main && !over ? ", and its process has not ended" : "");
    finding.evidence.push_back(
        {"python_exception", 1, fmt::format("{} raised {}", short_name(context.cluster, member), raised->text()), {}});
  }
  finding.remedy = fmt::format("see where pid {} on {} is (stalltrace stacks, py-spy dump): it is {}; {}",
                               finding.culprit->pid, finding.culprit->node, doing(activity), kLookForAbsence);
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const Stall& stall = nearest(group);
  if (group.counters.sum(Counted::kCycle).count > 0) {
    describe_cycle(context, group, finding);
  } else if (stall.majority_absent()) {
    describe_absent_majority(context, group, stall, finding);
  } else {
    describe_absent(context, group, stall, finding);
  }
  finding.evidence.push_back(waiting_evidence(context, stall));
  add_steps(context, group, finding);
}

}  // namespace

// An absent rank may be dead or stopped; that it is neither is concluded from the absence of such evidence.
extern const CauseRule kMissingCollectiveRule{
    .cause = Cause::kMissingCollective,
    .gate = kHangGate,
    .needs = "no rank was absent while the others hung in it",
    .judge = judge,
    .may_end = may_end,
    .describe = describe,
    .python_location_in_summary = true,
    .hints = {.memory = true},
    .needs_absence_of = {EvidenceKind::kProcessExits, EvidenceKind::kThreadWaits}};

}  // namespace stalltrace::analysis
