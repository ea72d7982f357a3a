// SPDX-License-Identifier: Apache-2.0
// What every profile starts from: who took part, every call, the connections, on one clock. A profile describes; it
// gives no verdict.
#pragma once

#include <memory>

#include "analysis/evidence/flows.h"
#include "analysis/node_filter.h"
#include "analysis/timeline/cluster.h"
#include "analysis/timeline/communicators/communicator_names.h"
#include "analysis/timeline/timeline.h"
#include "base/result.h"
#include "model/source.h"

namespace stalltrace::analysis {

class JobView {
 public:
  /// Reads all collectives, as explain does; `recorded` must outlive the object. What logs and dumps show has no ends,
  /// and often no times: only explain judges it.
  static Result<std::unique_ptr<JobView>> load(EventSource& recorded);

  /// For rows of other tables; communicators have their common names in it. Without nodes whose calls have no
  /// durations.
  [[nodiscard]] EventSource& source() { return measured_ ? *measured_ : names_->source(); }
  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  [[nodiscard]] const Timeline& timeline() const { return timeline_; }
  [[nodiscard]] const Flows& flows() const { return flows_; }
  /// Of the recordings, from the first arrival: the zero of times written with "+".
  [[nodiscard]] TimeRange range() const { return range_; }
  /// The part of `source` that can hold rows of `range` by the common clock.
  [[nodiscard]] TimeRange on_any_clock(TimeRange range) const;

 private:
  JobView(std::unique_ptr<CommonNames> names, std::unique_ptr<NodeFilter> measured, Cluster cluster, Timeline timeline,
          Flows flows);

  std::unique_ptr<CommonNames> names_;
  std::unique_ptr<NodeFilter> measured_;  // of names_; null where all nodes are measured
  Cluster cluster_;
  Timeline timeline_;
  Flows flows_;
  TimeRange range_;
};

}  // namespace stalltrace::analysis
