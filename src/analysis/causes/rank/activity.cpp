// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/rank/activity.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/gates.h"
#include "analysis/thresholds/stalls.h"
#include "base/text.h"

namespace stalltrace::analysis {

int32_t working_tid(const AnalysisContext& context, MemberIndex member, Interval window, int32_t calling_tid) {
  const int32_t first = context.cluster.member(member).pid;
  if (calling_tid == 0 || calling_tid == first) {
    return calling_tid;
  }
  const auto spent_ns = [&](WaitKind kind, int32_t tid) {
    return context.evidence.share(member, kind, window, Competitors::kAll, tid).covered_ns;
  };
  const bool idle = share_of(spent_ns(WaitKind::kBlocked, calling_tid), window.length()) >= kCoverage;
  const bool seen = spent_ns(WaitKind::kOnCpu, first) + spent_ns(WaitKind::kRunnable, first) +
                        spent_ns(WaitKind::kDisk, first) + spent_ns(WaitKind::kBlocked, first) >
                    0;
  return idle && seen ? first : calling_tid;
}

Activity activity_of(const AnalysisContext& context, MemberIndex member, Interval window, int32_t calling_tid) {
  const int32_t tid = working_tid(context, member, window, calling_tid);
  Activity activity{.known = context.evidence.has_waits(member), .window_ns = window.length()};
  activity.on_cpu_ns = context.evidence.share(member, WaitKind::kOnCpu, window).covered_ns;
  activity.disk_ns = context.evidence.share(member, WaitKind::kDisk, window, Competitors::kAll, tid).covered_ns;
  activity.blocked_ns = context.evidence.share(member, WaitKind::kBlocked, window, Competitors::kAll, tid).covered_ns;
  return activity;
}

std::string_view doing(const Activity& activity) {
  const int64_t most = std::max({activity.on_cpu_ns, activity.disk_ns, activity.blocked_ns});
  if (!activity.known || most == 0) {
    return "doing something that was not recorded";
  }
  return activity.on_cpu_ns == most ? "computing"
         : activity.disk_ns == most ? "waiting for disk"
                                    : "sleeping or waiting for something else";
}

bool is_computing(const Activity& activity) {
  return activity.known && activity.on_cpu_ns > 0 &&
         activity.on_cpu_ns >= std::max(activity.disk_ns, activity.blocked_ns);
}

Evidence activity_evidence(const AnalysisContext& context, MemberIndex member, const Activity& activity) {
  return {"wait_span",
          1,
          fmt::format("{} was {} in that time: {} of {} on the CPU, {} blocked, {} waiting for disk",
                      short_name(context.cluster, member), doing(activity), format_duration(activity.on_cpu_ns),
                      format_duration(activity.window_ns), format_duration(activity.blocked_ns),
                      format_duration(activity.disk_ns)),
          {}};
}

bool is_settling(const AnalysisContext& context, const Stall& stall) {
  if (stall.lost_ns >= kSettlingNs) {
    return false;
  }
  if (is_settling(context.timeline.groups()[stall.group], stall.number)) {
    return true;
  }
  // Whatever rank is late then: the steps of all ranks of one communicator are the same.
  const std::optional<int64_t> settled =
      stall.members.empty() ? std::nullopt : context.settling.settled_ns(stall.members.front());
  return settled && stall.window.from_ns < *settled;
}

bool is_settling(const AnalysisContext& context, const CauseGroup& group, const Gate& gate) {
  int64_t later_ns = 0;
  int64_t longest_ns = 0;
  for (const Stall* stall : group.stalls) {
    if (!is_settling(context, *stall)) {
      later_ns += stall->lost_ns;
      longest_ns = std::max(longest_ns, stall->lost_ns);
    }
  }
  return longest_ns < gate.single_ns && later_ns < gate.total_ns;
}

}  // namespace stalltrace::analysis
