// SPDX-License-Identifier: Apache-2.0
// Explains why an instance is or is not a stall: the verdicts of the stall search, the baseline it was compared with,
// and every rule's hypothesis, also for parts that the rules would not normally see.
#pragma once

#include <vector>

#include "analysis/causes/decision.h"
#include "analysis/stalls/find_stalls.h"
#include "base/result.h"
#include "model/inspection.h"
#include "model/source.h"

namespace stalltrace::analysis {

struct InspectionQuery {
  EventId id = 0;  // the requested call
  InstanceId instance;
  TimeRange range;  // the range of the stall search
};

/// The instance of call `id`; fails if there is no such call. Reads all collectives.
Result<InstanceId> find_instance(EventSource& source, const Cluster& cluster, const Timeline& timeline, EventId id);

/// `watched` is what the search for `decisions` kept about the instance; Decision::finding is set.
Inspection inspect(const AnalysisContext& context, const InspectionQuery& query, const WatchedInstance& watched,
                   const std::vector<Decision>& decisions);

}  // namespace stalltrace::analysis
