// SPDX-License-Identifier: Apache-2.0
// Why was, or was not, this instance a stall? Puts one instance under the lens of the same analysis: its like, its
// split, and every rule's opinion, also of an instance that no rule would have been asked about.
#pragma once

#include <optional>
#include <vector>

#include "analysis/findings/decision.h"
#include "analysis/timeline/instance.h"
#include "base/result.h"
#include "model/inspection.h"

namespace stalltrace::analysis {

class Inspector {
 public:
  /// The instance that `id`, a call of one of its ranks, belongs to; fails when there is none such.
  static Result<Inspector> find(EventSource& source, const Cluster& cluster, const Timeline& timeline, EventId id);

  /// `stalls` and the instance's parts that are none, in time order: what evidence has to be read for.
  [[nodiscard]] std::vector<Stall> with_parts(const std::vector<Stall>& stalls) const;
  [[nodiscard]] Inspection describe(const AnalysisContext& context, const std::vector<Decision>& decisions,
                                    const std::vector<Finding>& findings) const;

 private:
  explicit Inspector(const Timeline& timeline) : timeline_(&timeline) {}
  [[nodiscard]] bool warming_up() const;
  [[nodiscard]] InspectedLike like() const;
  [[nodiscard]] std::vector<Stall> ordinary_parts(const std::vector<Stall>& stalls) const;
  [[nodiscard]] InspectedPart part_of(const AnalysisContext& context, const Decision& decision, bool stall) const;
  [[nodiscard]] std::string why_not_late(const Stall& part) const;
  [[nodiscard]] std::string why(const Stall& part, bool stall) const;

  const Timeline* timeline_;
  EventId id_ = 0;
  Instance instance_;
  InspectedLike like_;
};

}  // namespace stalltrace::analysis
