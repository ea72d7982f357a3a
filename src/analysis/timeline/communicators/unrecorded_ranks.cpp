// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/communicators/unrecorded_ranks.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "analysis/thresholds/set_up.h"
#include "model/events/loss_sources.h"

namespace stalltrace::analysis {
namespace {

/// Nodes with processes that were not followed, or only after some of their calls.
std::set<NodeId> nodes_with_refused_processes(const std::vector<Loss>& losses) {
  std::set<NodeId> nodes;
  for (const Loss& loss : losses) {
    if (loss.count > 0 && loss.source.starts_with(kLostProcessShare)) {
      nodes.insert(loss.node_id);
    }
  }
  return nodes;
}

/// Ranks that were started with the member, in a job of this size, and called nothing: they are recorded.
void add_silent_ranks(const Cluster& cluster, const std::set<NodeId>& refused, const Member& member, int32_t size,
                      std::set<int32_t>& present) {
  for (const Process& process : cluster.processes()) {
    if (refused.contains(process.node_id)) {
      continue;
    }
    const bool calls = cluster.find(process.node_id, process.pid) != kNoMember;
    const int64_t start_ns = cluster.clock().to_common(process.node_id, process.start_ns);
    if (!calls && process.rank && process.rank_source == RankSource::kEnvironment && member.start_ns &&
        process.world_size == size && process.job_id == member.job_id && !process.exit_ns &&
        std::llabs(start_ns - *member.start_ns) <= kStartedTogetherNs) {
      present.insert(*process.rank);
    }
  }
}

/// For each rank the number of communicators of unknown size that it called on, without those of Sends and Recvs.
std::vector<size_t> nameless_groups_of_members(const Cluster& cluster, const std::vector<CallSequence>& sequences,
                                               const std::vector<Group>& groups) {
  std::vector<size_t> counts(cluster.members().size());
  for (const Group& group : groups) {
    std::set<MemberIndex> members;
    for (const uint32_t sequence : group.sequences) {
      members.insert(sequences[sequence].member);
    }
    for (const MemberIndex member : members) {
      counts[member] += group.judged_by_job() && !group.point_to_point ? 1 : 0;
    }
  }
  return counts;
}

/// The ranks of one job attempt, by its launcher.
struct Job {
  int32_t size = 0;  // 0: not known
  bool all_call = false;
  size_t fewest_groups = 0;  // nameless ones of one of its ranks
  MissingRanks unrecorded{{}, 0};
};

Job job_of(const Cluster& cluster, const std::set<NodeId>& refused, const Member& of,
           const std::vector<size_t>& nameless_groups) {
  Job job{.size = of.world_size.value_or(0), .fewest_groups = std::numeric_limits<size_t>::max()};
  std::set<int32_t> present;
  int32_t members = 0;
  for (MemberIndex index = 0; index < cluster.members().size(); ++index) {
    const Member& member = cluster.member(index);
    if (member.attempt == of.attempt && member.world_size == of.world_size && member.job_id == of.job_id) {
      ++members;
      job.fewest_groups = std::min(job.fewest_groups, nameless_groups[index]);
      present.insert(member.rank.value_or(-1));
    }
  }
  job.all_call = members >= job.size;
  if (!job.all_call) {
    add_silent_ranks(cluster, refused, of, job.size, present);
    job.unrecorded = MissingRanks(present, job.size);
  }
  return job;
}

/// Whether a nameless group has all its ranks. One that has called nothing on it yet is known by nothing but that it
/// calls on fewer communicators than the ranks of the group do. A rank that is alone was not matched with those that it
/// waits for.
bool is_whole(const std::vector<CallSequence>& sequences, const Group& group, const Job& job,
              const std::vector<size_t>& nameless_groups, int64_t took_part) {
  if (group.point_to_point || !job.all_call) {
    return false;
  }
  const bool others_call_as_often = std::ranges::all_of(group.sequences, [&](uint32_t sequence) {
    return nameless_groups[sequences[sequence].member] <= job.fewest_groups;
  });
  return took_part >= job.size || (took_part > 1 && others_call_as_often);
}

MissingRanks missing_of_communicator(const Cluster& cluster, const std::set<NodeId>& refused,
                                     const std::vector<CallSequence>& sequences, const Group& group) {
  std::set<int32_t> present;
  add_silent_ranks(cluster, refused, cluster.member(sequences[group.sequences.front()].member), *group.nranks, present);
  for (const uint32_t sequence : group.sequences) {
    if (sequences[sequence].comm_rank) {
      present.insert(*sequences[sequence].comm_rank);
    }
  }
  return {present, *group.nranks};
}

}  // namespace

void find_unrecorded_ranks(const Cluster& cluster, const std::vector<Loss>& losses,
                           const std::vector<CallSequence>& sequences, std::vector<Group>& groups) {
  const std::set<NodeId> refused = nodes_with_refused_processes(losses);
  const std::vector<size_t> nameless_groups = nameless_groups_of_members(cluster, sequences, groups);
  std::map<std::tuple<AttemptIndex, int32_t, std::string>, Job> jobs;
  const auto job_at = [&](const Group& group) -> const Job& {
    const Member& member = cluster.member(sequences[group.sequences.front()].member);
    const auto [job, fresh] =
        jobs.try_emplace(std::tuple(member.attempt, member.world_size.value_or(0), member.job_id), Job{});
    if (fresh) {
      job->second = job_of(cluster, refused, member, nameless_groups);
    }
    return job->second;
  };
  for (Group& group : groups) {
    const auto took_part =
        std::ranges::count_if(group.sequences, [&](uint32_t sequence) { return !sequences[sequence].continued; });
    if ((group.point_to_point || !group.judged_by_job()) && took_part >= *group.nranks) {
      group.all_took_part = true;
    } else if (!group.judged_by_job()) {
      group.unrecorded = missing_of_communicator(cluster, refused, sequences, group);
    } else {
      const Job& job = job_at(group);
      group.all_took_part = is_whole(sequences, group, job, nameless_groups, took_part);
      group.unrecorded = job.unrecorded;
    }
  }
}

}  // namespace stalltrace::analysis
