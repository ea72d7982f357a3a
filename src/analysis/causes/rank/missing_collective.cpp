// SPDX-License-Identifier: Apache-2.0
// missing_collective: others are inside an instance that a rank did not enter, and it is alive: outside of all calls,
// or in another call in which it waits in turn. The chain of waits is told from its start.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "analysis/causes/cause.h"
#include "analysis/causes/rank/activity.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr const char* kCycle = "cycle";
constexpr const char* kLonely = "lonely";

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  if (stall.root().kind != HangKind::kOutside && stall.root().kind != HangKind::kCycle) {
    return;
  }
  Hypothesis hypothesis{.cause = Cause::kMissingCollective, .place = {.culprit = stall.root().member}};
  hypothesis.coverage = 1;
  hypothesis.applies = true;
  if (stall.root().kind == HangKind::kCycle) {
    hypothesis.counters[{kCycle, ""}].count = 1;
    hypothesis.why = "ranks wait for each other in different calls";
  } else {
    hypothesis.counters[{stall.majority_absent() ? kLonely : "absent", ""}].count = 1;
    hypothesis.why = stall.majority_absent()
                         ? "more ranks stayed away than came"
                         : fmt::format("{} is in no call", short_name(context.cluster, stall.root().member));
  }
  out.push_back(std::move(hypothesis));
}

/// The stall to tell: the one nearest to the root.
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

void tell_steps(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  std::set<std::string> said;
  for (const Stall* stall : group.stalls) {
    for (const HangStep& step : stall->root().path) {
      if (std::string text = step_text(context, step); said.size() < kStepsTold && said.insert(text).second) {
        finding.evidence.push_back({"collective", 1, std::move(text), {}});
      }
    }
  }
}

void tell_cycle(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
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

void tell_lonely(const AnalysisContext& context, const CauseGroup& group, const Stall& stall, Finding& finding) {
  const std::string call = call_text(context, stall);
  finding.summary =
      group.place.culprit == kNoMember
          ? fmt::format("Only some ranks entered {}: {}.", call, cost_text(group))
          : fmt::format("{} entered {} alone, the others never came: {}.",
                        capitalised(context.cluster.describe(group.place.culprit)), call, cost_text(group));
  finding.remedy =
      "look for a collective under a condition that only some ranks meet (if rank == 0: ...), and for uneven numbers "
      "of "
      "steps";
}

void tell_absent(const AnalysisContext& context, const CauseGroup& group, const Stall& stall, Finding& finding) {
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

void tell(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const Stall& stall = nearest(group);
  if (tally_of(group.counters, kCycle).count > 0) {
    tell_cycle(context, group, finding);
  } else if (stall.majority_absent()) {
    tell_lonely(context, group, stall, finding);
  } else {
    tell_absent(context, group, stall, finding);
  }
  finding.evidence.push_back(waiting_evidence(context, stall));
  tell_steps(context, group, finding);
}

}  // namespace

// A rank that does not come may be dead, or stopped: that it is neither is known from what is not recorded of it.
const CauseRule kMissingCollectiveRule{.cause = Cause::kMissingCollective,
                                       .gate = kHangGate,
                                       .judge = judge,
                                       .refine = nullptr,
                                       .tell = tell,
                                       .needs_absence_of = {EvidenceKind::kProcessExits, EvidenceKind::kThreadWaits}};

}  // namespace stalltrace::analysis
