// SPDX-License-Identifier: Apache-2.0
// missing_collective: others are inside an instance that a rank did not enter, and it is alive: outside of all calls,
// or in another call in which it waits in turn. The chain of waits is described from its start.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "analysis/causes/cause.h"
#include "analysis/causes/rank/activity.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

enum class Counted : uint8_t { kCycle };

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  if (stall.root().kind != HangKind::kOutside && stall.root().kind != HangKind::kCycle) {
    return;
  }
  Hypothesis hypothesis{.cause = Cause::kMissingCollective, .place = {.culprit = stall.root().member}};
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

/// The stall to describe: the one nearest to the root.
const Stall& nearest(const CauseGroup& group) {
  const Stall* best = group.stalls.front();
  for (const Stall* stall : group.stalls) {
    if (stall->root().path.size() < best->root().path.size() ||
        (stall->root().path.size() == best->root().path.size() && stall->window.from_ns < best->window.from_ns)) {
      best = stall;
    }
  }
  return *best;
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
  finding.summary = fmt::format(
      "Ranks wait for each other in different calls, a deadlock{}: {}.",
      group.place.culprit == kNoMember
          ? ""
          : fmt::format(" ({} is in one that the others are not in)", context.cluster.describe(group.place.culprit)),
      cost_text(group));
  finding.remedy =
      "let all ranks call collectives of several communicators in one order, and put Sends and Recvs that depend on "
      "each other into one group (ncclGroupStart/End)";
}

void describe_lonely(const AnalysisContext& context, const CauseGroup& group, const Stall& stall, Finding& finding) {
  const std::string call = call_text(context, stall);
  finding.summary =
      group.place.culprit == kNoMember
          ? fmt::format("Only some ranks entered {}: {}.", call, cost_text(group))
          : fmt::format("{} entered {} alone, and the others never entered it: {}.",
                        capitalised(context.cluster.describe(group.place.culprit)), call, cost_text(group));
  finding.remedy =
      "look for a collective under a condition that only some ranks meet (if rank == 0: ...), and for uneven numbers "
      "of steps";
}

void describe_absent(const AnalysisContext& context, const CauseGroup& group, const Stall& stall, Finding& finding) {
  const MemberIndex member = group.place.culprit;
  const Activity activity = activity_of(context, member, stall.examined(), stall.calling_tid());
  finding.summary = fmt::format(
      "{} is alive but did not enter {}, {}: {}.", capitalised(context.cluster.describe(member)),
      call_text(context, stall),
      stall.root().path.empty() ? "the others wait for it" : "where a chain of waiting ranks begins", cost_text(group));
  finding.evidence.push_back(activity_evidence(context, member, activity));
  finding.remedy = fmt::format(
      "see where pid {} on {} is (py-spy dump, gdb): it is {}; look for a collective that only some ranks call, uneven "
      "numbers of steps, an input that does not come",
      finding.culprit->pid, finding.culprit->node, doing(activity));
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const Stall& stall = nearest(group);
  if (group.counters.sum(Counted::kCycle).count > 0) {
    describe_cycle(context, group, finding);
  } else if (stall.majority_absent()) {
    describe_lonely(context, group, stall, finding);
  } else {
    describe_absent(context, group, stall, finding);
  }
  finding.evidence.push_back(waiting_evidence(context, stall));
  add_steps(context, group, finding);
}

}  // namespace

// A rank that does not come may be dead, or stopped: that it is neither is known from what is not recorded of it.
extern const CauseRule kMissingCollectiveRule{
    .cause = Cause::kMissingCollective,
    .gate = kHangGate,
    .needs = "no rank was absent while the others hung in it",
    .judge = judge,
    .describe = describe,
    .hints = {.memory = true},
    .needs_absence_of = {EvidenceKind::kProcessExits, EvidenceKind::kThreadWaits}};

}  // namespace stalltrace::analysis
