// SPDX-License-Identifier: Apache-2.0
// Whose waits the analysis keeps, and when. Of thousands of nodes, most stalls need a few.
#pragma once

#include <set>
#include <unordered_map>
#include <vector>

#include "analysis/evidence/evidence.h"

namespace stalltrace::analysis {

/// The window with kEvidenceMarginNs on both sides.
Interval with_margins(const Interval& window);

class WaitFilter {
 public:
  WaitFilter(const std::vector<Examined>& examined, const Cluster& cluster);

  /// Null: all.
  [[nodiscard]] const std::set<NodeId>* nodes() const { return of_all_.empty() ? &nodes_ : nullptr; }
  /// A stall that needs few nodes' waits needs this node's, in this time.
  [[nodiscard]] bool names(NodeId node, Interval window) const;
  /// A stall needs all nodes' waits of this time.
  [[nodiscard]] bool keeps_all(Interval window) const { return of_all_.covered_ns(window) > 0; }

 private:
  IntervalSet of_all_;
  std::unordered_map<NodeId, IntervalSet> of_nodes_;
  std::set<NodeId> nodes_;
};

}  // namespace stalltrace::analysis
