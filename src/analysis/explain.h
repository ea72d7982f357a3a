// SPDX-License-Identifier: Apache-2.0
// Events in, findings out. Pure: no kernel, no clock, no database; the same source gives the same report, so a
// live run and a replay use the same code.
#pragma once

#include <optional>
#include <vector>

#include "analysis/causes/decision.h"
#include "base/result.h"
#include "model/finding.h"
#include "model/inspection.h"
#include "model/source.h"

namespace stalltrace {

struct ExplainOptions {
  /// Only collectives that touch this time are judged. UTC of the first node.
  std::optional<TimeRange> range;
  /// A call whose instance is inspected, too.
  std::optional<EventId> instance;
};

struct ExplainResult {
  Report report;
  /// What was decided about every examined stall, with the numbers of each rule.
  std::vector<analysis::Decision> decisions;
  /// Of ExplainOptions::instance, where it was given.
  std::optional<Inspection> inspection;
};

/// Reads `source` a few times, in time order; memory is about 16 bytes a collective plus bounded evidence.
/// Fails where the source does, and for an instance that is not there. A recording without collectives gives a healthy
/// report with a note.
Result<ExplainResult> explain(EventSource& source, const ExplainOptions& options = {});

}  // namespace stalltrace
