// SPDX-License-Identifier: Apache-2.0
#include "cli/reporting.h"

#include <algorithm>

#include "analysis/explain.h"
#include "export/report_text.h"
#include "store/reader.h"

namespace stalltrace::cli {
namespace {

/// The window in UTC; none when nothing was asked for.
Result<std::optional<TimeRange>> resolve(const TimeWindow& window, EventSource& source) {
  if (!window.from && !window.to) {
    return std::nullopt;
  }
  ST_ASSIGN(const std::vector<Node> nodes, source.nodes());
  const auto first = std::ranges::min_element(nodes, {}, &Node::started_ns);
  const int64_t start_ns = first == nodes.end() ? 0 : first->started_ns;
  TimeRange range;
  if (window.from) {
    range.from_ns = window.from->utc_ns(start_ns);
  }
  if (window.to) {
    range.to_ns = window.to->utc_ns(start_ns);
  }
  if (range.from_ns >= range.to_ns) {
    return fail("--from is not before --to", "give the earlier time to --from", ErrorKind::kUsage);
  }
  return range;
}

}  // namespace

Result<Report> explain_recordings(std::span<const std::string> paths, const TimeWindow& window) {
  ST_ASSIGN(const std::unique_ptr<EventSource> source, open_recordings(paths));
  ExplainOptions options;
  ST_ASSIGN(options.range, resolve(window, *source));
  return stalltrace::explain(*source, options);
}

void print_report(Console& console, const Report& report) {
  console.out(report_to_text(report, {.colour = console.colour_out()}));
}

}  // namespace stalltrace::cli
