// SPDX-License-Identifier: Apache-2.0
#include "cli/reporting.h"

#include <algorithm>
#include <iterator>

#include "analysis/explain.h"
#include "model/parse/event_name.h"
#include "report/report_text.h"
#include "store/read/reader.h"

namespace stalltrace::cli {

Result<InspectedReport> inspect_recordings(std::span<const std::string> paths, std::string_view event,
                                           const TimeWindow& window) {
  store::ReadReport read;
  ST_ASSIGN(const std::unique_ptr<EventSource> source, store::open_recordings(paths, &read));
  ExplainOptions options{.window = window};
  if (!event.empty()) {
    ST_ASSIGN(const std::vector<Node> nodes, source->nodes());
    auto call = event_called(event, nodes);
    if (!call) {
      return with_context("--instance", std::move(call.error()));
    }
    options.instance = *call;
  }
  ST_ASSIGN(ExplainResult result, stalltrace::explain(*source, options));
  std::ranges::move(read.notes(), std::back_inserter(result.report.notes));
  result.report.lost_events += read.rows_left_out();
  return InspectedReport{std::move(result.report), std::move(result.inspection).value_or(Inspection{})};
}

Result<Report> explain_recordings(std::span<const std::string> paths, const TimeWindow& window) {
  ST_ASSIGN(InspectedReport inspected, inspect_recordings(paths, {}, window));
  return std::move(inspected.report);
}

void print_report(Console& console, const Report& report) {
  console.out(report::report_to_text(report, {.colour = console.colour_out()}));
}

}  // namespace stalltrace::cli
