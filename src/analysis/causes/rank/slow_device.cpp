// SPDX-License-Identifier: Apache-2.0
// slow_device: a rank's CPU had called in time, and its device began the collective's kernel last by far: what the
// device had to do before took longer than on the other ranks. Only where the profiler plugin reports kernels.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/causes/cause.h"
#include "analysis/causes/rank/activity.h"
#include "analysis/causes/rank/chance.h"
#include "analysis/causes/rank/elsewhere.h"
#include "analysis/causes/rank/pauses.h"
#include "analysis/intervals.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/gates.h"
#include "analysis/thresholds/ranks.h"
#include "analysis/thresholds/stalls.h"
#include "analysis/timeline/instance.h"
#include "base/numbers/median.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

/// Ranks of the collective whose time elsewhere is compared.
constexpr size_t kPeersCompared = 8;

/// The step before the stall's end, as far as the rank's calls show it.
Interval step_before(const AnalysisContext& context, const Stall& stall, MemberIndex member) {
  const std::optional<int64_t> step_ns = step_length_ns(context, member);
  return {stall.window.to_ns - step_ns.value_or(stall.window.length()), stall.window.to_ns};
}

/// The newest calls of a rank on a communicator before the step's end, from that back to one step before it.
template <typename Visit>
void for_each_call_around(const CallSequence& sequence, Interval step, Visit visit) {
  auto call = std::partition_point(sequence.calls.begin(), sequence.calls.end(),
                                   [&](const Call& one) { return one.arrival_ns < step.to_ns; });
  for (int64_t n = 0; call != sequence.calls.begin() && n < kCallsElsewhere; ++n) {
    --call;
    if (call->arrival_ns < step.from_ns - step.length()) {
      break;
    }
    visit(*call);
  }
}

/// How long the rank was inside of collectives of other communicators.
int64_t inside_elsewhere_ns(const AnalysisContext& context, const Stall& stall, MemberIndex member, Interval step) {
  int64_t inside_ns = 0;
  for (const uint32_t index : context.timeline.sequences_of(member)) {
    const CallSequence& sequence = context.timeline.sequences()[index];
    if (sequence.group != stall.group) {
      for_each_call_around(sequence, step, [&](const Call& call) {
        inside_ns += call.present ? intersect({call.arrival_ns, call.end_ns()}, step).length() : 0;
      });
    }
  }
  return inside_ns;
}

/// True if the rank's device may have waited for one that was not recorded: on another communicator, or on this one,
/// unless all that it calls in a step is on this one and needs all ranks. Such calls hold no rank up longer than
/// others.
bool may_pass_on_a_wait(const AnalysisContext& context, const Stall& stall, MemberIndex member, Interval step) {
  if (context.timeline.groups()[stall.group].all_took_part) {
    return partly_known_communicator(context, member) != nullptr;
  }
  bool all_held_up = true;
  for (const uint32_t index : context.timeline.sequences_of(member)) {
    const CallSequence& sequence = context.timeline.sequences()[index];
    for_each_call_around(sequence, step, [&](const Call& call) {
      all_held_up = all_held_up && sequence.group == stall.group && call.present &&
                    synchronises(context.timeline.signature(call.signature).op);
    });
  }
  return !all_held_up;
}

/// How much longer than the other ranks of the collective its device was inside of collectives of other communicators:
/// it passes on what they waited for, a late rank there or a slow network.
int64_t longer_elsewhere_ns(const AnalysisContext& context, const Stall& stall, MemberIndex member, int64_t own_ns) {
  std::vector<int64_t> others;
  for (const MemberIndex other : stall.members) {
    if (other != member && others.size() < kPeersCompared) {
      others.push_back(inside_elsewhere_ns(context, stall, other, step_before(context, stall, member)));
    }
  }
  if (others.empty()) {
    return 0;
  }
  return own_ns - median(std::move(others));
}

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  if (!stall.on_device() || stall.suspects.size() != 1) {
    return;
  }
  const MemberIndex member = stall.suspects[0];
  Hypothesis hypothesis{.cause = Cause::kSlowDevice, .location = {.culprit = member}, .applies = true};
  hypothesis.coverage = kSlowDeviceConfidence;
  hypothesis.why = fmt::format("the device of {} began {} after the others, and its CPU had called in time",
                               short_name(context.cluster, member), format_duration(stall.lost_ns));
  const Interval step = step_before(context, stall, member);
  if (const int64_t longer_ns =
          longer_elsewhere_ns(context, stall, member, inside_elsewhere_ns(context, stall, member, step));
      share_of(longer_ns, stall.to_explain_ns()) >= kCoverage) {
    hypothesis.dismissed = true;
    hypothesis.why +=
        fmt::format("; in the step before it was in other communicators' collectives for {} longer than others",
                    format_duration(longer_ns));
  } else if (may_pass_on_a_wait(context, stall, member, step)) {
    hypothesis.applies = false;
    hypothesis.why += "; it may have waited in collectives with ranks that are not all recorded";
  }
  out.push_back(std::move(hypothesis));
}

/// Work is uneven: now this device is last, now that one. That is ordinary, unless one of them is so late that no batch
/// explains it. Two devices that alternate share a cause: those of a pipeline's first stage are the last in every step.
void refine(const AnalysisContext& context, std::vector<CauseGroup>& groups) {
  const std::vector<bool> by_chance = late_by_chance(context, groups);
  const std::vector<bool> alternates = alternates_with_another(groups);
  size_t index = 0;
  std::erase_if(groups, [&](const CauseGroup& group) {
    const bool each_is_short = group.longest_ns < kSlowDeviceGate.single_ns;
    const bool chance = by_chance[index] || alternates[index] || steps_with_stalls(context, group) < kBaselineInstances;
    ++index;
    return (chance && each_is_short) || is_settling(context, group, kSlowDeviceGate);
  });
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  finding.summary = fmt::format("The device of {} is behind while the others wait: {}.",
                                context.cluster.describe(group.location.culprit), cost_text(group));
  finding.evidence.push_back(
      {"collective",
       static_cast<int64_t>(group.stalls.size()),
       fmt::format("the kernels of the others waited for it for up to {}, though its CPU had called in time; they may "
                   "have computed in the meantime, so that the job lost less",
                   format_duration(group.longest_ns)),
       {}});
  finding.remedy = fmt::format(
      "see what slows the device of this rank on {}: clocks, power and temperature limits, ECC errors, other processes "
      "on it (nvidia-smi -q -d PERFORMANCE,CLOCK,ECC; dcgmi diag); then whether it gets more work than the others "
      "(longer samples, uneven experts or layers)",
      finding.culprit->node);
}

}  // namespace

extern const CauseRule kSlowDeviceRule{.cause = Cause::kSlowDevice,
                                       .gate = kSlowDeviceGate,
                                       .needs = "no device was awaited whose CPU had called in time",
                                       .judge = judge,
                                       .refine = refine,
                                       .describe = describe,
                                       .only_for = [](const Stall& stall) { return stall.on_device(); }};

}  // namespace stalltrace::analysis
