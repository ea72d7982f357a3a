// SPDX-License-Identifier: Apache-2.0
#include "analysis/profiles/ranks.h"

#include <algorithm>

#include "analysis/profiles/instances.h"
#include "analysis/timeline/instance.h"
#include "base/numbers/median.h"
#include "model/waits/wait_rows.h"

namespace stalltrace::analysis {

std::vector<RankProfile> rank_profiles(const JobView& job, TimeRange range) {
  struct Sums {
    RankProfile profile;
    std::vector<int64_t> behind_ns;
    std::vector<Interval> inside;
  };
  std::vector<Sums> sums(job.cluster().members().size());
  Instance instance;
  for (uint32_t group = 0; group < job.timeline().groups().size(); ++group) {
    for_each_instance(job.timeline(), group, instance, [&] {
      if (!is_under_way(job, instance, range)) {
        return;
      }
      const int64_t first_ns = instance.seen.front().arrival_ns;
      const int64_t hung_to_ns = std::min(instance.hung_to_ns, job.range().to_ns);
      const auto in_range_ns = [&](int64_t from_ns, int64_t to_ns) {
        return intersect({from_ns, to_ns}, {range.from_ns, range.to_ns}).length();
      };
      for (const uint32_t sequence : instance.absent) {
        const MemberIndex member = job.timeline().sequences()[sequence].member;
        if (member < sums.size()) {
          ++sums[member].profile.absent;
          sums[member].profile.waited_for_ns += in_range_ns(instance.waits_from_ns, hung_to_ns);
        }
      }
      for (const Arrival& seen : instance.seen) {
        const MemberIndex member = job.timeline().sequences()[seen.sequence].member;
        if (member >= sums.size()) {
          continue;
        }
        Sums& own = sums[member];
        ++own.profile.instances;
        own.profile.open += seen.open && instance.hung ? 1 : 0;
        own.profile.waited_ns +=
            in_range_ns(seen.arrival_ns, instance.absent.empty() ? instance.last_arrival_ns : hung_to_ns);
        own.behind_ns.push_back(seen.arrival_ns - first_ns);
        if (seen.end_ns != kForever) {
          own.inside.push_back(intersect({seen.arrival_ns, seen.end_ns}, {range.from_ns, range.to_ns}));
        } else if (instance.hung) {
          own.inside.push_back(intersect({seen.arrival_ns, hung_to_ns}, {range.from_ns, range.to_ns}));
        }
        if (&seen == &instance.seen.back() && instance.seen.size() > 1 && instance.absent.empty()) {
          ++own.profile.last;
          own.profile.waited_for_ns += in_range_ns(instance.waits_from_ns, instance.last_arrival_ns);
        }
      }
    });
  }
  std::vector<RankProfile> profiles;
  for (size_t i = 0; i < sums.size(); ++i) {
    Sums& own = sums[i];
    if (own.profile.instances == 0 && own.profile.absent == 0) {
      continue;
    }
    own.profile.member = static_cast<MemberIndex>(i);
    own.profile.median_behind_ns = median(own.behind_ns);
    own.profile.inside_ns = IntervalSet(std::move(own.inside)).total_ns();
    profiles.push_back(own.profile);
  }
  return profiles;
}

Result<ThreadTimes> thread_times(JobView& job, MemberIndex index, TimeRange range) {
  const Member& member = job.cluster().member(index);
  ThreadTimes times;
  const auto add = [&](const WaitSpan& row, int64_t over_ns) {
    const int64_t from_ns = job.cluster().clock().to_common(row.node_id, row.timestamp_ns);
    const int64_t lasted_ns = std::min(row.window_ns, over_ns - row.timestamp_ns);
    const int64_t common_ns = intersect({from_ns, from_ns + lasted_ns}, range).length();
    const int64_t ns = std::min(row.waited_ns, common_ns);
    if (ns <= 0 || static_cast<size_t>(row.kind) >= ThreadTimes::kKinds) {
      return;
    }
    ++times.rows;
    times.ns[static_cast<size_t>(row.kind)] += ns;
    constexpr size_t kMostNames = 1000;
    if (row.kind == WaitKind::kRunnable && row.by_pid != 0 &&
        (times.ran_instead.size() < kMostNames || times.ran_instead.contains(row.by_name))) {
      times.ran_instead[row.by_name] += std::min(row.by_waited_ns, ns);
    }
  };
  WaitRows waits([&](const WaitSpan& row, int64_t over_ns) { add(row, over_ns); });
  ST_TRY(job.source().wait_spans(job.on_any_clock(range), [&](const WaitSpan& row) {
    if (row.node_id == member.node_id && row.pid == member.pid) {
      waits.add(row);
    }
  }));
  waits.finish();
  return times;
}

}  // namespace stalltrace::analysis
