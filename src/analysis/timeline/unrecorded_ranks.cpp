// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/unrecorded_ranks.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "analysis/thresholds.h"

namespace stalltrace::analysis {
namespace {

int64_t count_recorded(const Timeline& timeline, const Group& group) {
  return std::ranges::count_if(group.sequences,
                               [&](uint32_t sequence) { return !timeline.sequences()[sequence].continued; });
}

}  // namespace

bool all_ranks_recorded(const Cluster& cluster, const Timeline& timeline, uint32_t index) {
  const Group& group = timeline.groups()[index];
  const Member& member = cluster.member(timeline.sequences()[group.sequences.front()].member);
  return count_recorded(timeline, group) >= group.nranks.value_or(member.world_size.value_or(0));
}

MissingRanks unrecorded_ranks(const Cluster& cluster, const Timeline& timeline, uint32_t index) {
  const Group& group = timeline.groups()[index];
  if (group.hash == 0 || group.point_to_point || count_recorded(timeline, group) >= group.nranks.value_or(0)) {
    return MissingRanks({}, 0);
  }
  std::set<int32_t> present;
  const Member& member = cluster.member(timeline.sequences()[group.sequences.front()].member);
  for (const Process& process : cluster.processes()) {
    const bool calls = cluster.find(process.node_id, process.pid) != kNoMember;
    const int64_t start_ns = cluster.clock().to_common(process.node_id, process.start_ns);
    if (!calls && process.rank && process.rank_source == RankSource::kEnvironment && member.start_ns &&
        process.world_size == group.nranks && process.job_id == member.job_id && !process.exit_ns &&
        std::llabs(start_ns - *member.start_ns) <= kStartedTogetherNs) {
      present.insert(*process.rank);
    }
  }
  for (const uint32_t sequence : group.sequences) {
    if (timeline.sequences()[sequence].comm_rank) {
      present.insert(*timeline.sequences()[sequence].comm_rank);
    }
  }
  return MissingRanks(present, *group.nranks);
}

}  // namespace stalltrace::analysis
