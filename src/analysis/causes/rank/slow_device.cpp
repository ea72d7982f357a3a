// SPDX-License-Identifier: Apache-2.0
// slow_device: a rank's CPU had called in time, and its device began the collective's kernel last by far: what the
// device had to do before took longer than on the other ranks. Only where the profiler plugin reports kernels.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/causes/cause.h"
#include "analysis/causes/rank/activity.h"
#include "analysis/causes/rank/chance.h"
#include "analysis/causes/rank/pauses.h"
#include "analysis/timeline/instance.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

/// How long its device waited for others in other communicators, in the step before: it passes their lateness on.
int64_t waited_elsewhere_ns(const AnalysisContext& context, const Stall& stall, MemberIndex member) {
  const std::optional<int64_t> step_ns = step_length_ns(context, member);
  const int64_t from_ns = stall.window.to_ns - step_ns.value_or(stall.window.length());
  int64_t waited_ns = 0;
  Instance instance;
  for (const uint32_t index : context.timeline.sequences_of(member)) {
    const CallSequence& sequence = context.timeline.sequences()[index];
    auto call = std::partition_point(sequence.calls.begin(), sequence.calls.end(),
                                     [&](const Call& one) { return one.arrival_ns < stall.window.to_ns; });
    for (int64_t n = 0; sequence.group != stall.group && call != sequence.calls.begin() && n < kCallsElsewhere; ++n) {
      --call;
      const int64_t number = sequence.first_number() + (call - sequence.calls.begin());
      if (!call->present || !read_instance(context.timeline, sequence.group, number, instance) || !instance.by_device) {
        continue;
      }
      if (instance.last_arrival_ns < from_ns) {
        break;
      }
      const auto own = std::ranges::find(instance.seen, index, &Arrival::sequence);
      const bool before = own != instance.seen.end() && instance.last_arrival_ns <= stall.window.to_ns;
      waited_ns += before ? instance.last_arrival_ns - own->arrival_ns : 0;
    }
  }
  return waited_ns;
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
  if (const int64_t waited_ns = waited_elsewhere_ns(context, stall, member);
      share_of(waited_ns, stall.to_explain_ns()) >= kCoverage) {
    hypothesis.dismissed = true;
    hypothesis.why +=
        fmt::format("; in the step before it waited {} for others in other communicators", format_duration(waited_ns));
  }
  out.push_back(std::move(hypothesis));
}

/// Work is uneven: now this device is last, now that one. That is ordinary, unless one of them is so late that no batch
/// explains it.
void refine(const AnalysisContext& context, std::vector<CauseGroup>& groups) {
  const std::vector<bool> by_chance = late_by_chance(context, groups);
  size_t index = 0;
  std::erase_if(groups, [&](const CauseGroup& group) {
    const bool each_is_short = group.longest_ns < kSlowDeviceGate.single_ns;
    const bool chance = by_chance[index++] || steps_with_stalls(context, group) < kBaselineInstances;
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
