// SPDX-License-Identifier: Apache-2.0
#include "cli/reporting.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "analysis/explain.h"
#include "report/report_text.h"
#include "store/read/reader.h"

namespace stalltrace::cli {
namespace {

constexpr const char* kWhereIdsAre = "give NODE:NUMBER as query shows it (SELECT name FROM event_name)";

template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// The node with this name or number.
std::optional<NodeId> node_called(const std::vector<Node>& nodes, std::string_view name) {
  const auto found = std::ranges::find_if(nodes, [&](const Node& node) { return node.name == name; });
  return found != nodes.end() ? std::optional(found->node_id) : number_in<NodeId>(name);
}

Result<EventId> event_called(std::string_view text, EventSource& source) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    const auto id = number_in<EventId>(text);
    if (id && node_of(*id) != 0) {
      return *id;
    }
    return fail(fmt::format("--instance: '{}' is no event id", text),
                fmt::format("give NODE:NUMBER, such as node3:1535{}", id ? " (not the collective's seq)" : ""),
                ErrorKind::kUsage);
  }
  if (const auto number = number_in<uint64_t>(text.substr(colon + 1))) {
    ST_ASSIGN(const std::vector<Node> nodes, source.nodes());
    if (const auto node = node_called(nodes, text.substr(0, colon))) {
      return make_event_id(*node, *number);
    }
    return fail(fmt::format("--instance: no node '{}' in these recordings", text.substr(0, colon)), kWhereIdsAre,
                ErrorKind::kNotFound);
  }
  return fail(fmt::format("--instance: '{}' names no event", text), kWhereIdsAre, ErrorKind::kUsage);
}

}  // namespace

Result<InspectedReport> inspect_recordings(std::span<const std::string> paths, std::string_view event,
                                           const TimeWindow& window) {
  store::ReadReport read;
  ST_ASSIGN(const std::unique_ptr<EventSource> source, store::open_recordings(paths, &read));
  ExplainOptions options{.window = window};
  if (!event.empty()) {
    ST_ASSIGN(options.instance, event_called(event, *source));
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

Result<ExplainedRecordings> open_and_explain(std::span<const std::string> paths, const TimeWindow& window) {
  ExplainedRecordings all;
  ST_ASSIGN(all.source, store::open_recordings(paths));
  ST_ASSIGN(analysis::CommonNames names, analysis::CommonNames::read(*all.source));
  all.names = std::make_unique<analysis::CommonNames>(std::move(names));
  ST_ASSIGN(ExplainResult result, stalltrace::explain(*all.source, {.window = window, .stalled_calls = true}));
  all.report = std::move(result.report);
  all.clocks = std::move(result.clocks);
  return all;
}

void print_report(Console& console, const Report& report) {
  console.out(report::report_to_text(report, {.colour = console.colour_out()}));
}

}  // namespace stalltrace::cli
