// SPDX-License-Identifier: Apache-2.0
// Why was, or was not, this instance a stall? Prints the verdicts that the stall search made of it, what it was
// compared with, and every rule's hypothesis, also about parts that no rule would have been asked about.
#pragma once

#include <vector>

#include "analysis/causes/decision.h"
#include "analysis/stalls/find_stalls.h"
#include "base/result.h"
#include "model/inspection.h"
#include "model/source.h"

namespace stalltrace::analysis {

struct InspectionQuery {
  EventId id = 0;  // the call that was asked for
  InstanceId instance;
  TimeRange range;  // that stalls were searched in
};

/// The instance that `id`, a call of one of its ranks, belongs to; fails when there is none such. Reads all
/// collectives.
Result<InstanceId> find_instance(EventSource& source, const Cluster& cluster, const Timeline& timeline, EventId id);

/// `watched` is what the search for `decisions` kept of the instance; `findings` are made of these decisions.
Inspection inspect(const AnalysisContext& context, const InspectionQuery& query, const WatchedInstance& watched,
                   const std::vector<Decision>& decisions, const std::vector<Finding>& findings);

}  // namespace stalltrace::analysis
