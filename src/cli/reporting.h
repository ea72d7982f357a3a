// SPDX-License-Identifier: Apache-2.0
// Shared by `explain`, `run` and `lab run`: makes a report of recordings, as text or JSON.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/stalls/reference.h"
#include "analysis/timeline/communicators/communicator_names.h"
#include "base/result.h"
#include "cli/evidence/inputs.h"
#include "cli/framework/console.h"
#include "model/finding.h"
#include "model/inspection.h"
#include "model/node_clock.h"
#include "model/source.h"
#include "model/time_window.h"

namespace stalltrace::cli {

/// Explains the recordings together.
Result<Report> explain_recordings(std::span<const std::string> paths, const TimeWindow& window = {});

/// The decision about the instance of one call, and the report. `event` is in query's form: "node2:1234", with the
/// node's name or number, or the number in `event_id`; empty: the report alone.
struct InspectedReport {
  Report report;
  Inspection inspection;
};
Result<InspectedReport> inspect_recordings(std::span<const std::string> paths, std::string_view event,
                                           const TimeWindow& window = {});

/// A run that was right.
struct ReadReference {
  analysis::Reference reference;
  std::vector<std::string> notes;  // what of its files was not read
};
/// What recordings of such a run show. Of a folder, files of other formats are left out.
Result<ReadReference> read_reference(const Inputs& inputs);

/// The same as inspect_recordings() of recordings, logs and dumps. `like`: a run that was right, or null.
Result<InspectedReport> inspect_inputs(const Inputs& inputs, std::string_view event, const TimeWindow& window = {},
                                       const ReadReference* like = nullptr);

/// Recordings and what they show, for programs that present both.
struct ExplainedRecordings {
  std::unique_ptr<EventSource> source;
  std::unique_ptr<analysis::CommonNames> names;  // the same with one name for each communicator, as the report has it
  Report report;                                 // with Finding::stalled
  std::vector<NodeClock> clocks;
};
Result<ExplainedRecordings> open_and_explain(std::span<const std::string> paths, const TimeWindow& window);

/// Prints a report as text, with colour if the output is a terminal that supports it.
void print_report(Console& console, const Report& report, bool all = false);

/// Prints rows with names that others chose: unchanged into a file, without control characters on a terminal (CSV keeps
/// names as they are).
void print_rows(Console& console, std::string_view text);

}  // namespace stalltrace::cli
