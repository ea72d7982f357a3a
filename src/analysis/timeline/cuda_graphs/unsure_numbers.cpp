// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/cuda_graphs/unsure_numbers.h"

#include <cstdint>
#include <set>
#include <utility>

namespace stalltrace::analysis {

size_t forget_unsure_names(const std::vector<GraphUse>& graph_uses, const Cluster& cluster,
                           std::vector<CallSequence>& sequences) {
  std::set<std::pair<NodeId, int32_t>> with_graphs;
  for (const GraphUse& use : graph_uses) {
    with_graphs.insert({use.node_id, use.pid});
  }
  for (const Communicator& row : cluster.communicators()) {
    if (is_graph_communicator(row.comm_ptr)) {  // the GPU runtime's calls may not be recorded
      with_graphs.insert({row.node_id, row.pid});
    }
  }
  if (with_graphs.empty()) {
    return 0;
  }
  std::set<CommHash> numbered_by_file;
  std::set<CommHash> beside_graphs;
  for (const Communicator& row : cluster.communicators()) {
    if (row.comm_id_hash == 0 || is_graph_communicator(row.comm_ptr)) {
      continue;
    }
    // Of a split the file adds the rank, and the numbers are those of the probes.
    if (row.rank_source == RankSource::kPlugin && row.parent_hash == 0) {
      numbered_by_file.insert(row.comm_id_hash);
    }
    if (with_graphs.contains({row.node_id, row.pid})) {
      beside_graphs.insert(row.comm_id_hash);
    }
  }
  std::set<CommHash> unsure;
  for (CallSequence& sequence : sequences) {
    if (!sequence.calls.empty() && numbered_by_file.contains(sequence.hash) && beside_graphs.contains(sequence.hash)) {
      unsure.insert(std::exchange(sequence.hash, 0));
    }
  }
  return unsure.size();
}

}  // namespace stalltrace::analysis
