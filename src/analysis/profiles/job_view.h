// SPDX-License-Identifier: Apache-2.0
// What every profile starts from: who took part, every call, the connections, on one clock. A profile describes; it
// gives no verdict.
#pragma once

#include <memory>

#include "analysis/evidence/flows.h"
#include "analysis/timeline/cluster.h"
#include "analysis/timeline/communicator_names.h"
#include "analysis/timeline/timeline.h"
#include "base/result.h"
#include "model/source.h"

namespace stalltrace::analysis {

class JobView {
 public:
  /// Reads all collectives, as explain does; `recorded` must outlive the object.
  static Result<std::unique_ptr<JobView>> load(EventSource& recorded);

  /// For rows of other tables; communicators have their common names in it.
  [[nodiscard]] EventSource& source() { return names_.source(); }
  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  [[nodiscard]] const Timeline& timeline() const { return timeline_; }
  [[nodiscard]] const Flows& flows() const { return flows_; }
  /// Of the recordings, from the first arrival: the zero of times written with "+".
  [[nodiscard]] TimeRange range() const { return range_; }
  /// The part of `source` that can hold rows of `range` by the common clock.
  [[nodiscard]] TimeRange on_any_clock(TimeRange range) const;

 private:
  JobView(CommonNames names, Cluster cluster, Timeline timeline, Flows flows);

  CommonNames names_;
  Cluster cluster_;
  Timeline timeline_;
  Flows flows_;
  TimeRange range_;
};

}  // namespace stalltrace::analysis
