// SPDX-License-Identifier: Apache-2.0
// slow_device: a rank's CPU had called in time, and its device began the collective's kernel last by far: what the
// device had to do before took longer than on the other ranks. Only where the profiler plugin reports kernels.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/causes/cause.h"
#include "analysis/causes/rank/activity.h"
#include "analysis/causes/rank/chance.h"
#include "analysis/causes/rank/elsewhere.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  if (!stall.on_device() || stall.suspects.size() != 1) {
    return;
  }
  const MemberIndex member = stall.suspects[0];
  Hypothesis hypothesis{.cause = Cause::kSlowDevice, .location = {.culprit = member}, .applies = true};
  hypothesis.coverage = kSlowDeviceConfidence;
  hypothesis.why = fmt::format("the device of {} began {} after the others, and its CPU had called in time",
                               short_name(context.cluster, member), format_duration(stall.lost_ns));
  const Elsewhere call = elsewhere(context, stall, member, stall.examined());
  if (share_of(call.inside_ns, stall.to_explain_ns()) >= kCoverage) {
    follow(context, stall, call, hypothesis);
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
    return (by_chance[index++] && each_is_short) || is_settling(context, group, kSlowDeviceGate);
  });
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  finding.summary = fmt::format("The device of {} is behind while the others wait: {}.",
                                context.cluster.describe(group.location.culprit), cost_text(group));
  finding.evidence.push_back(
      {"collective",
       static_cast<int64_t>(group.stalls.size()),
       fmt::format("its kernels began up to {} after those of the other devices, though its CPU had called in time",
                   format_duration(group.longest_ns)),
       {}});
  if (const std::string text = elsewhere_text(group); !text.empty()) {
    finding.evidence.push_back(
        {"collective", elsewhere_counter(group).count, fmt::format("in that time {}", text), {}});
  }
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
