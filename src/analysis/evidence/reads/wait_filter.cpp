// SPDX-License-Identifier: Apache-2.0
#include "analysis/evidence/reads/wait_filter.h"

#include <map>

#include "analysis/thresholds/bounds.h"

namespace stalltrace::analysis {

Interval with_margins(const Interval& window) {
  return {window.from_ns - kEvidenceMarginNs, window.to_ns + kEvidenceMarginNs};
}

WaitFilter::WaitFilter(const std::vector<Examined>& examined, const Cluster& cluster) {
  std::vector<Interval> of_all;
  std::map<NodeId, std::vector<Interval>> of_nodes;
  for (const Examined& one : examined) {
    if (one.waits_of.empty()) {
      of_all.push_back(with_margins(one.window));
      continue;
    }
    std::set<NodeId> nodes;
    for (const MemberIndex member : one.waits_of) {
      nodes.insert(cluster.member(member).node_id);
    }
    for (const NodeId node : nodes) {
      of_nodes[node].push_back(with_margins(one.window));
    }
  }
  for (auto& [node, windows] : of_nodes) {
    of_nodes_.emplace(node, std::move(windows));
    nodes_.insert(node);
  }
  of_all_ = IntervalSet(std::move(of_all));
}

bool WaitFilter::names(NodeId node, Interval window) const {
  const auto found = of_nodes_.find(node);
  return found != of_nodes_.end() && found->second.covered_ns(window) > 0;
}

}  // namespace stalltrace::analysis
