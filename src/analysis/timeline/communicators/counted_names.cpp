// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/communicators/counted_names.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "analysis/timeline/communicators/match_unknown.h"

namespace stalltrace::analysis {
namespace {

/// A communicator of a process, by its address.
using Pointer = std::tuple<NodeId, int32_t, uint64_t>;

}  // namespace

size_t forget_contradicted_names(const Cluster& cluster, std::vector<CallSequence>& sequences) {
  std::set<Pointer> counted;
  for (const Communicator& row : cluster.communicators()) {
    if (row.calls_before) {
      counted.insert({row.node_id, row.pid, row.comm_ptr});
    }
  }
  if (counted.empty()) {
    return 0;
  }
  const auto is_counted = [&](const CallSequence& sequence) {
    const Member& member = cluster.member(sequence.member);
    return counted.contains({member.node_id, member.pid, sequence.comm_ptr});
  };
  std::map<std::pair<AttemptIndex, CommHash>, std::vector<CallSequence*>> communicators;
  for (CallSequence& sequence : sequences) {
    if (sequence.hash != 0 && !sequence.point_to_point && !sequence.calls.empty()) {
      communicators[{cluster.attempt_of(sequence.member), sequence.hash}].push_back(&sequence);
    }
  }
  size_t forgotten = 0;
  for (const auto& [name, ranks] : communicators) {
    const CallSequence& longest =
        **std::ranges::max_element(ranks, {}, [](const CallSequence* sequence) { return sequence->calls.size(); });
    const bool contradicted = std::ranges::any_of(ranks, [&](const CallSequence* rank) { return is_counted(*rank); }) &&
                              std::ranges::any_of(ranks, [&](const CallSequence* rank) {
                                return rank != &longest && !may_be_numbered_alike(longest, *rank, cluster);
                              });
    if (!contradicted) {
      continue;
    }
    ++forgotten;
    for (CallSequence* rank : ranks) {
      rank->hash = is_counted(*rank) ? 0 : rank->hash;
    }
  }
  return forgotten;
}

}  // namespace stalltrace::analysis
