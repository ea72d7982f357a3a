// SPDX-License-Identifier: Apache-2.0
// Turns events into findings. Pure: no kernel, no clock, no database; one source gives one report, so that a live run
// and a replay share this code.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "analysis/causes/decision.h"
#include "analysis/evidence/reads/evidence_reads.h"
#include "analysis/stalls/reference.h"
#include "base/result.h"
#include "model/finding.h"
#include "model/inspection.h"
#include "model/node_clock.h"
#include "model/source.h"
#include "model/time_window.h"

namespace stalltrace {

struct ExplainOptions {
  /// Only collectives that overlap this time are judged, and only lost time inside it counts. UTC of the first node.
  TimeWindow window;
  /// A call whose instance is inspected as well.
  std::optional<EventId> instance;
  /// Processes (node, pid) that are known to have called collectives, in addition to those with calls in the source.
  std::set<std::pair<NodeId, int32_t>> called;
  /// Sets Finding::stalled.
  bool stalled_calls = false;
  /// What is known of nodes' clocks beside their collectives.
  std::vector<MeasuredClock> measured_clocks;
  /// Of a run that was right: what takes longer here is found even where it does from the first call to the last. Null:
  /// this run is compared with itself alone.
  const analysis::Reference* reference = nullptr;
  /// Null: the source has all rows.
  analysis::EvidenceProvider* provider = nullptr;
};

struct ExplainResult {
  Report report;
  /// The decision about every examined stall, with the numbers of each rule.
  std::vector<analysis::Decision> decisions;
  /// The inspection of ExplainOptions::instance, if that was set.
  std::optional<Inspection> inspection;
  /// The clock of each node of the source.
  std::vector<NodeClock> clocks;
};

/// Reads `source` a few times, in time order; memory is about 16 bytes a collective plus bounded evidence. Fails if the
/// source fails, if the window is empty (kUsage) or outside of the recording (kNotFound), or if the instance does not
/// exist. A recording without collectives gives a report with a note, in which nothing was judged. The window does not
/// limit what logs and dumps show (a note says so); one outside of theirs fails as well.
Result<ExplainResult> explain(EventSource& source, const ExplainOptions& options = {});

}  // namespace stalltrace
