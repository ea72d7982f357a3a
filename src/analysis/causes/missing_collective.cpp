// SPDX-License-Identifier: Apache-2.0
// missing_collective: others are inside an instance that a rank did not enter, and it is alive: outside of all calls,
// or in another call in which it waits in turn. The chain of waits is told from its start.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "analysis/causes/activity.h"
#include "analysis/causes/cause.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr const char* kCycle = "cycle";
constexpr const char* kLonely = "lonely";

void judge(const Scene& scene, const Stall& stall, std::vector<Explanation>& out) {
  if (stall.hang.kind != HangKind::kOutside && stall.hang.kind != HangKind::kCycle) {
    return;
  }
  Explanation opinion{.cause = Cause::kMissingCollective, .place = {.culprit = stall.hang.member}};
  opinion.coverage = 1;
  opinion.applies = true;
  if (stall.hang.kind == HangKind::kCycle) {
    opinion.tallies[{kCycle, ""}].count = 1;
    opinion.why = "ranks wait for each other in different calls";
  } else {
    opinion.tallies[{stall.lonely ? kLonely : "absent", ""}].count = 1;
    opinion.why = stall.lonely ? "more ranks stayed away than came"
                               : fmt::format("{} is in no call", short_name(scene.cluster, stall.hang.member));
  }
  out.push_back(std::move(opinion));
}

/// The stall to tell: the one nearest to the root.
const Stall& nearest(const Folded& group) {
  const Stall* best = group.stalls.front();
  for (const Stall* stall : group.stalls) {
    if (stall->hang.path.size() < best->hang.path.size() ||
        (stall->hang.path.size() == best->hang.path.size() && stall->window.from_ns < best->window.from_ns)) {
      best = stall;
    }
  }
  return *best;
}

void tell_steps(const Scene& scene, const Folded& group, Finding& finding) {
  std::set<std::string> said;
  for (const Stall* stall : group.stalls) {
    for (const HangStep& step : stall->hang.path) {
      if (std::string text = step_text(scene, step); said.size() < kStepsTold && said.insert(text).second) {
        finding.evidence.push_back({"collective", 1, std::move(text), {}});
      }
    }
  }
}

void tell_cycle(const Scene& scene, const Folded& group, Finding& finding) {
  finding.summary = fmt::format(
      "Ranks wait for each other in different calls, a deadlock{}: {}.",
      group.place.culprit == kNoMember
          ? ""
          : fmt::format(" ({} is in one that the others are not in)", scene.cluster.describe(group.place.culprit)),
      cost_text(group));
  finding.remedy =
      "let all ranks call collectives of several communicators in one order, and put Sends and Recvs that depend on "
      "each other into one group (ncclGroupStart/End)";
}

void tell_lonely(const Scene& scene, const Folded& group, const Stall& stall, Finding& finding) {
  const std::string call = call_text(scene, stall);
  finding.summary = group.place.culprit == kNoMember
                        ? fmt::format("Only some ranks entered {}: {}.", call, cost_text(group))
                        : fmt::format("{} entered {} alone, the others never came: {}.",
                                      capitalised(scene.cluster.describe(group.place.culprit)), call, cost_text(group));
  finding.remedy =
      "look for a collective under a condition that only some ranks meet (if rank == 0: ...), and for uneven numbers "
      "of "
      "steps";
}

void tell_absent(const Scene& scene, const Folded& group, const Stall& stall, Finding& finding) {
  const MemberIndex member = group.place.culprit;
  const Activity activity = activity_of(scene, member, stall.examined(), stall.calling_tid);
  finding.summary = fmt::format(
      "{} is alive but did not enter {}, {}: {}.", capitalised(scene.cluster.describe(member)), call_text(scene, stall),
      stall.hang.path.empty() ? "the others wait for it" : "where a chain of waiting ranks begins", cost_text(group));
  finding.evidence.push_back(activity_evidence(scene, member, activity));
  finding.remedy = fmt::format(
      "see where pid {} on {} is (py-spy dump, gdb): it is {}; look for a collective that only some ranks call, uneven "
      "numbers of steps, an input that does not come",
      finding.culprit->pid, finding.culprit->node, doing(activity));
}

void tell(const Scene& scene, const Folded& group, Finding& finding) {
  const Stall& stall = nearest(group);
  if (tally_of(group.tallies, kCycle).count > 0) {
    tell_cycle(scene, group, finding);
  } else if (stall.lonely) {
    tell_lonely(scene, group, stall, finding);
  } else {
    tell_absent(scene, group, stall, finding);
  }
  finding.evidence.push_back(waiting_evidence(scene, stall));
  tell_steps(scene, group, finding);
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
