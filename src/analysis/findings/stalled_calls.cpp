// SPDX-License-Identifier: Apache-2.0
#include "analysis/findings/stalled_calls.h"

#include <set>
#include <utility>

#include "analysis/timeline/instance.h"

namespace stalltrace::analysis {
namespace {

StalledInstance calls_of(const Cluster& cluster, const Timeline& timeline, const Stall& stall) {
  StalledInstance stalled{.waited = {stall.window.from_ns, stall.window.to_ns}, .calls = {}};
  Instance instance;
  if (!read_instance(timeline, stall.group, stall.number, instance)) {
    return stalled;
  }
  for (const Arrival& seen : instance.seen) {
    const CallSequence& sequence = timeline.sequences()[seen.sequence];
    const Call* call = sequence.call_at(stall.number);
    if (call == nullptr) {
      continue;
    }
    const Member& member = cluster.member(sequence.member);
    stalled.calls.push_back(
        {.node_id = member.node_id,
         .pid = member.pid,
         .comm_id_hash = sequence.hash,
         .seq = sequence.hash == 0 ? std::nullopt : std::optional(stall.number - sequence.number_offset),
         .arrival_ns = cluster.clock().from_common(member.node_id, seen.arrival_ns),
         .op = timeline.signature(call->signature).op});
  }
  return stalled;
}

}  // namespace

void add_stalled_calls(const Cluster& cluster, const Timeline& timeline, std::vector<StallFinding>& findings) {
  for (auto& [finding, stalls, unproven] : findings) {
    std::set<InstanceId> instances;  // an instance can stall in both of its parts
    size_t calls = 0;
    for (const Stall* stall : stalls) {
      if (calls >= kMostStalledCalls) {
        break;
      }
      if (instances.insert(stall->instance()).second) {
        finding.stalled.push_back(calls_of(cluster, timeline, *stall));
        calls += finding.stalled.back().calls.size();
      }
    }
  }
}

}  // namespace stalltrace::analysis
