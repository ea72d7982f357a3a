// SPDX-License-Identifier: Apache-2.0
#include "analysis/profiles/instances.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace stalltrace::analysis {
namespace {

bool taken(const JobView& job, const Instance& instance, const InstanceFilter& filter) {
  if (!is_under_way(job, instance, filter.range)) {
    return false;
  }
  const Timeline& timeline = job.timeline();
  if (filter.hash && timeline.groups()[instance.group].hash != *filter.hash) {
    return false;
  }
  if (filter.op && timeline.signature(instance.signature).op != *filter.op) {
    return false;
  }
  return !filter.last_rank ||
         job.cluster().member(timeline.sequences()[instance.seen.back().sequence].member).rank == *filter.last_rank;
}

/// Greater is slower; none if the instance has no such time.
std::optional<int64_t> slowness(const InstanceTimes& times, InstanceOrder order) {
  switch (order) {
    case InstanceOrder::kLate:
      return times.late_ns;
    case InstanceOrder::kTransfer:
      return times.transfer_ns;
    case InstanceOrder::kTotal:
      break;
  }
  return times.hung || times.transfer_ns ? std::optional(times.total_ns) : std::nullopt;
}

/// An instance without a known end is open only if it hangs: the others ended unobserved.
int64_t end_of(const JobView& job, const Instance& instance) {
  return instance.completed() ? instance.completion_ns
         : instance.hung      ? std::min(instance.hung_to_ns, job.range().to_ns)
                              : instance.last_arrival_ns;
}

std::optional<OpenInstance> open_at(const JobView& job, const Instance& instance, int64_t time_ns) {
  OpenInstance open;
  for (const Arrival& seen : instance.seen) {
    const CallSequence& sequence = job.timeline().sequences()[seen.sequence];
    const MemberIndex member = sequence.member;
    const bool still_inside =
        seen.end_ns == kForever ? instance.hung && time_ns <= sequence.observed_to_ns() : seen.end_ns > time_ns;
    if (seen.arrival_ns > time_ns) {
      open.awaited.push_back({member, seen.arrival_ns});
    } else if (still_inside) {
      open.inside.push_back({member, seen.arrival_ns});
    }
  }
  if (open.inside.empty()) {
    return std::nullopt;
  }
  open.times = times_of(job, instance);
  for (const MemberIndex absent : open.times.absent) {
    open.awaited.push_back({absent, std::nullopt});
  }
  return open;
}

/// All ranks have entered it, as far as that can be known.
bool is_complete(const JobView& job, const OpenInstance& open) {
  const Group& group = job.timeline().groups()[open.times.group];
  return open.awaited.empty() && group.all_took_part &&
         (group.point_to_point || !group.nranks || std::cmp_equal(open.times.ranks, *group.nranks));
}

/// True if the ranks that `open` awaits are not what it waits for: `transfer` is older, and its ranks are still inside,
/// or the communicator's order lets nothing pass it.
bool is_behind(const OpenInstance& open, const OpenInstance& transfer) {
  const auto inside = [&](const OpenInstance::Later& later) {
    return std::ranges::find(transfer.inside, later.member, &OpenInstance::Inside::member) != transfer.inside.end();
  };
  return open.times.group == transfer.times.group || std::ranges::any_of(open.awaited, inside);
}

/// `transfer`: the oldest instance that all its ranks have entered, or the end.
std::vector<MemberIndex> ends_of_chains(const std::vector<OpenInstance>& instances,
                                        std::vector<OpenInstance>::const_iterator transfer) {
  std::set<MemberIndex> inside;
  std::set<MemberIndex> awaited;
  bool newer = false;
  for (const OpenInstance& open : instances) {
    for (const OpenInstance::Inside& one : open.inside) {
      inside.insert(one.member);
    }
    if (newer && is_behind(open, *transfer)) {
      continue;
    }
    for (const OpenInstance::Later& one : open.awaited) {
      awaited.insert(one.member);
    }
    newer = newer || (transfer != instances.end() && &open == &*transfer);
  }
  std::vector<MemberIndex> ends;
  std::ranges::set_difference(awaited, inside, std::back_inserter(ends));
  return ends;
}

Result<TransferWaits> transfer_waits(JobView& job, const OpenInstance& open, Interval around) {
  TransferWaits waits;
  const int64_t end_ns = open.times.first_arrival_ns + open.times.total_ns;
  waits.window = intersect({open.times.last_arrival_ns, end_ns}, around);
  // Also ranks that have left it: what they sent last can still be on its way.
  std::set<MemberIndex> took_part;
  for (const uint32_t sequence : job.timeline().groups()[open.times.group].sequences) {
    if (const MemberIndex member = job.timeline().sequences()[sequence].member; member != kNoMember) {
      took_part.insert(member);
    }
  }
  const std::vector<MemberIndex> members(took_part.begin(), took_part.end());
  Cluster cluster = job.cluster();  // reading evidence adds threads to it
  ST_ASSIGN(const EvidenceStore evidence, EvidenceStore::load(job.source(), cluster, job.flows(), {waits.window}));
  waits.graph = build_wait_graph(cluster, job.flows(), evidence, members, waits.window);
  return waits;
}

}  // namespace

bool is_under_way(const JobView& job, const Instance& instance, TimeRange range) {
  const int64_t first_ns = instance.seen.front().arrival_ns;
  return first_ns < range.to_ns && (first_ns >= range.from_ns || end_of(job, instance) > range.from_ns);
}

InstanceTimes times_of(const JobView& job, const Instance& instance) {
  const Timeline& timeline = job.timeline();
  const Group& group = timeline.groups()[instance.group];
  const Arrival& last = instance.seen.back();
  InstanceTimes times{.group = instance.group,
                      .number = instance.number,
                      .hash = group.hash,
                      .op = timeline.signature(instance.signature).op,
                      .bytes = timeline.payload(instance.group, instance.signature),
                      .ranks = instance.seen.size(),
                      .last = timeline.sequences()[last.sequence].member,
                      .last_sequence = last.sequence,
                      .first_arrival_ns = instance.seen.front().arrival_ns,
                      .last_arrival_ns = instance.last_arrival_ns,
                      .late_ns = instance.late_ns(),
                      .hung = instance.hung,
                      .warming_up = is_warming_up(group, instance.number)};
  if (group.attempt != kNoAttempt) {
    times.attempt = int64_t{group.attempt} + 1;
  }
  for (const uint32_t sequence : instance.absent) {
    times.absent.push_back(timeline.sequences()[sequence].member);
  }
  if (instance.completed() && instance.batch != BatchPart::kInside) {
    times.transfer_ns = instance.transfer_ns();
  }
  times.total_ns = std::max<int64_t>(0, end_of(job, instance) - times.first_arrival_ns);
  return times;
}

SlowestInstances slowest_instances(const JobView& job, const InstanceFilter& filter, InstanceOrder order, size_t most) {
  SlowestInstances slowest;
  std::vector<std::pair<int64_t, InstanceTimes>> kept;
  const auto slower = [](const auto& a, const auto& b) {
    return std::tuple(-a.first, a.second.group, a.second.number) <
           std::tuple(-b.first, b.second.group, b.second.number);
  };
  const auto shorten = [&] {
    std::sort(kept.begin(), kept.end(), slower);
    kept.resize(std::min(kept.size(), most));
  };
  Instance instance;
  for (uint32_t group = 0; group < job.timeline().groups().size(); ++group) {
    for_each_instance(job.timeline(), group, instance, [&] {
      if (!taken(job, instance, filter)) {
        return;
      }
      InstanceTimes times = times_of(job, instance);
      if (const std::optional<int64_t> value = slowness(times, order)) {
        ++slowest.matched;
        kept.emplace_back(*value, std::move(times));
      }
      if (kept.size() >= 2 * most + 1024) {
        shorten();
      }
    });
  }
  shorten();
  for (auto& [value, times] : kept) {
    slowest.instances.push_back(std::move(times));
  }
  return slowest;
}

int64_t last_wait_ns(const JobView& job) {
  int64_t longest_ns = -1;
  int64_t time_ns = job.range().to_ns;
  Instance instance;
  for (uint32_t group = 0; group < job.timeline().groups().size(); ++group) {
    for_each_instance(job.timeline(), group, instance, [&] {
      const int64_t hung_ns = end_of(job, instance) - instance.seen.front().arrival_ns;
      if (!instance.hung || hung_ns <= longest_ns) {
        return;
      }
      longest_ns = hung_ns;
      time_ns = job.range().to_ns;
      for (const Arrival& seen : instance.seen) {
        if (seen.end_ns == kForever) {
          time_ns = std::min(time_ns, job.timeline().sequences()[seen.sequence].observed_to_ns());
        }
      }
    });
  }
  return std::max(time_ns, job.range().from_ns);
}

Result<WaitsAtTime> waits_at(JobView& job, int64_t time_ns, int64_t half_window_ns) {
  WaitsAtTime waits;
  Instance instance;
  for (uint32_t group = 0; group < job.timeline().groups().size(); ++group) {
    for_each_instance(job.timeline(), group, instance, [&] {
      if (instance.seen.front().arrival_ns > time_ns) {
        return;
      }
      if (!instance.completed() && !instance.hung) {
        ++waits.uncertain;
      } else if (std::optional<OpenInstance> open = open_at(job, instance, time_ns)) {
        waits.instances.push_back(std::move(*open));
      }
    });
  }
  std::ranges::stable_sort(waits.instances, {}, [](const OpenInstance& open) { return open.inside.front().since_ns; });
  const auto complete = std::find_if(waits.instances.cbegin(), waits.instances.cend(),
                                     [&](const OpenInstance& open) { return is_complete(job, open); });
  waits.held_up_by = ends_of_chains(waits.instances, complete);
  if (complete != waits.instances.cend()) {
    ST_ASSIGN(waits.transfer, transfer_waits(job, *complete, {time_ns - half_window_ns, time_ns + half_window_ns}));
  }
  return waits;
}

}  // namespace stalltrace::analysis
