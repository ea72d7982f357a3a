// SPDX-License-Identifier: Apache-2.0
#include "cli/reporting.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "analysis/explain.h"
#include "report/report_text.h"
#include "store/read/reader.h"

namespace stalltrace::cli {
namespace {

template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

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

/// The node called `name`, or with that number.
std::optional<NodeId> node_called(const std::vector<Node>& nodes, std::string_view name) {
  const auto found = std::ranges::find_if(nodes, [&](const Node& node) { return node.name == name; });
  return found != nodes.end() ? std::optional(found->node_id) : number_in<NodeId>(name);
}

Result<EventId> event_called(std::string_view text, EventSource& source) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    if (const auto id = number_in<EventId>(text)) {
      return *id;
    }
  } else if (const auto number = number_in<uint64_t>(text.substr(colon + 1))) {
    ST_ASSIGN(const std::vector<Node> nodes, source.nodes());
    if (const auto node = node_called(nodes, text.substr(0, colon))) {
      return make_event_id(*node, *number);
    }
    return fail(fmt::format("--instance: no node '{}' in these recordings", text.substr(0, colon)),
                "give NODE:NUMBER as query shows it (SELECT name FROM event_name)", ErrorKind::kNotFound);
  }
  return fail(fmt::format("--instance: '{}' names no event", text),
              "give NODE:NUMBER as query shows it (SELECT name FROM event_name)", ErrorKind::kUsage);
}

}  // namespace

Result<InspectedReport> inspect_recordings(std::span<const std::string> paths, const TimeWindow& window,
                                           std::string_view event) {
  ST_ASSIGN(const std::unique_ptr<EventSource> source, open_recordings(paths));
  ExplainOptions options;
  ST_ASSIGN(options.range, resolve(window, *source));
  ST_ASSIGN(options.instance, event_called(event, *source));
  ST_ASSIGN(ExplainResult result, stalltrace::explain(*source, options));
  return InspectedReport{std::move(result.report), std::move(result.inspection).value_or(Inspection{})};
}

Result<Report> explain_recordings(std::span<const std::string> paths, const TimeWindow& window) {
  ST_ASSIGN(const std::unique_ptr<EventSource> source, open_recordings(paths));
  ExplainOptions options;
  ST_ASSIGN(options.range, resolve(window, *source));
  ST_ASSIGN(ExplainResult result, stalltrace::explain(*source, options));
  return std::move(result.report);
}

void print_report(Console& console, const Report& report) {
  console.out(report_to_text(report, {.colour = console.colour_out()}));
}

}  // namespace stalltrace::cli
