// SPDX-License-Identifier: Apache-2.0
// Events in, findings out. Pure: no kernel, no clock, no database; the same source gives the same report, so a
// live run and a replay use the same code.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "analysis/causes/decision.h"
#include "base/result.h"
#include "model/finding.h"
#include "model/inspection.h"
#include "model/source.h"
#include "model/time_window.h"

namespace stalltrace {

struct ExplainOptions {
  /// Only collectives that touch this time are judged, and only lost time in it is counted. UTC of the first node.
  TimeWindow window;
  /// A call whose instance is inspected, too.
  std::optional<EventId> instance;
  /// Processes, by node and pid, that are known to have called collectives, beside those whose calls are in the source.
  std::set<std::pair<NodeId, int32_t>> called;
};

struct ExplainResult {
  Report report;
  /// What was decided about every examined stall, with the numbers of each rule.
  std::vector<analysis::Decision> decisions;
  /// Of ExplainOptions::instance, where it was given.
  std::optional<Inspection> inspection;
};

/// Reads `source` a few times, in time order; memory is about 16 bytes a collective plus bounded evidence.
/// Fails where the source does, where the window is empty (kUsage) or outside of the recording (kNotFound), and for an
/// instance that is not there. A recording without collectives gives a report with a note, in which nothing was judged.
Result<ExplainResult> explain(EventSource& source, const ExplainOptions& options = {});

}  // namespace stalltrace
