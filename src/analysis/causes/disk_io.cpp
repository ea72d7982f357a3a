// SPDX-License-Identifier: Apache-2.0
// disk_io: a rank arrived late, or not yet, and the thread that calls collectives was waiting for disk meanwhile: in
// uninterruptible sleep.
#include <fmt/format.h>

#include "analysis/causes/activity.h"
#include "analysis/causes/cause.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr const char* kDisk = "disk";

void judge(const Scene& scene, const Stall& stall, std::vector<Explanation>& out) {
  const bool outside = stall.part == StallPart::kAbsent && stall.hang.kind == HangKind::kOutside && !stall.lonely;
  if ((stall.part != StallPart::kLate && !outside) || stall.suspects.size() != 1) {
    return;
  }
  const MemberIndex member = stall.suspects[0];
  const Activity activity = activity_of(scene, member, stall.examined(), stall.calling_tid);
  if (activity.disk_ns == 0) {
    return;
  }
  Explanation opinion{.cause = Cause::kDiskIo, .place = {.culprit = member}};
  opinion.coverage = share_of(activity.disk_ns, stall.to_explain_ns());
  opinion.applies = opinion.coverage >= kCoverage;
  opinion.why = fmt::format("{} waited for disk for {} of {}", short_name(scene.cluster, member),
                            format_duration(activity.disk_ns), format_duration(stall.to_explain_ns()));
  opinion.tallies[{kDisk, ""}] = {1, activity.disk_ns, {}};
  out.push_back(std::move(opinion));
}

void tell(const Scene& scene, const Folded& group, Finding& finding) {
  const Tally disk = tally_of(group.tallies, kDisk);
  finding.summary = fmt::format("{} waits for its disk while the others wait for it: {}.",
                                capitalised(scene.cluster.describe(group.place.culprit)), cost_text(group));
  finding.evidence.push_back(
      {"wait_span",
       disk.count,
       fmt::format("the thread that calls collectives was in uninterruptible sleep for {:.0f} % of "
                   "the time the others waited, {} in all",
                   100 * group.coverage, format_duration(disk.time_ns)),
       {}});
  finding.remedy = fmt::format(
      "see what the rank reads or writes on {} (a checkpoint, a data set on a slow or full file system, swap): iostat "
      "-x, NFS statistics; write checkpoints from another thread, stage data on local disks",
      finding.culprit->node);
}

}  // namespace

const CauseRule kDiskIoRule{Cause::kDiskIo, kLateRankGate, judge, nullptr, tell};

}  // namespace stalltrace::analysis
