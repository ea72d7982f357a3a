// SPDX-License-Identifier: Apache-2.0
// disk_io: a rank was late or is still absent, and in that time the thread that calls collectives waited for disk, in
// uninterruptible sleep.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/causes/cause.h"
#include "analysis/causes/rank/activity.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/gates.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

enum class Counted : uint8_t { kDisk };

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  const bool outside =
      stall.part() == StallPart::kAbsent && stall.root().kind == HangKind::kOutside && !stall.majority_absent();
  if ((stall.part() != StallPart::kLate && !outside) || stall.suspects.size() != 1) {
    return;
  }
  const MemberIndex member = stall.suspects[0];
  const Activity activity = activity_of(context, member, stall.examined(), stall.calling_tid());
  if (activity.disk_ns == 0) {
    return;
  }
  Hypothesis hypothesis{.cause = Cause::kDiskIo, .location = {.culprit = member}};
  hypothesis.coverage = share_of(activity.disk_ns, stall.to_explain_ns());
  hypothesis.applies = hypothesis.coverage >= kCoverage;
  hypothesis.why = fmt::format("{} waited for disk for {} of {}", short_name(context.cluster, member),
                               format_duration(activity.disk_ns), format_duration(stall.to_explain_ns()));
  hypothesis.counters.at(Counted::kDisk) = {1, activity.disk_ns, {}};
  out.push_back(std::move(hypothesis));
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const EvidenceCounter disk = group.counters.sum(Counted::kDisk);
  finding.summary = fmt::format("{} waits for its disk while the others wait for it: {}.",
                                capitalised(context.cluster.describe(group.location.culprit)), cost_text(group));
  finding.evidence.push_back(
      {"wait_span",
       disk.count,
       fmt::format("the thread that calls collectives was in uninterruptible sleep for {:.0f} % of "
                   "the time the others waited, {} in all",
                   100 * group.coverage, format_duration(std::min(disk.time_ns, time_of(group).total_ns()))),
       {}});
  finding.remedy = fmt::format(
      "see what the rank reads or writes on {} (a checkpoint, a data set on a slow or full file system, swap): iostat "
      "-x, NFS statistics; write checkpoints from another thread, stage data on local disks",
      finding.culprit->node);
}

}  // namespace

extern const CauseRule kDiskIoRule{.cause = Cause::kDiskIo,
                                   .gate = kLateRankGate,
                                   .needs = "no awaited rank's calling thread waited for disk",
                                   .judge = judge,
                                   .describe = describe,
                                   .hints = {.memory = true}};

}  // namespace stalltrace::analysis
