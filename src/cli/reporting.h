// SPDX-License-Identifier: Apache-2.0
// What `explain`, `run` and `lab run` share: recordings in, a report out, as text or JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/framework/console.h"
#include "model/finding.h"
#include "model/inspection.h"
#include "model/time_window.h"

namespace stalltrace::cli {

/// Explains the recordings together.
Result<Report> explain_recordings(std::span<const std::string> paths, const TimeWindow& window = {});

/// What was decided about the instance of one call, and the report. `event` is as query shows it: "node2:1234", with
/// the node's name or number, or the number in `event_id`.
struct InspectedReport {
  Report report;
  Inspection inspection;
};
Result<InspectedReport> inspect_recordings(std::span<const std::string> paths, std::string_view event);

/// For people, with colour where the output is a terminal that wants it.
void print_report(Console& console, const Report& report);

}  // namespace stalltrace::cli
