// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/explain_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/explain.h"
#include "base/text.h"
#include "cli/framework/confined_reading.h"
#include "fleet/rows/fleet_source.h"
#include "model/parse/event_name.h"

namespace stalltrace::cli {
namespace {

Result<ExplainResult> explain_source(fleet::FleetSource& source, std::string_view event, const TimeWindow& window,
                                     const analysis::Reference* reference) {
  ExplainOptions options{.window = window};
  options.reference = reference;
  options.measured_clocks = source.measured_clocks();
  options.provider = &source;
  if (!event.empty()) {
    ST_ASSIGN(const std::vector<Node> nodes, source.nodes());
    auto call = event_called(event, nodes);
    if (!call) {
      return with_context("--instance", std::move(call.error()));
    }
    options.instance = *call;
  }
  return stalltrace::explain(source, options);
}

}  // namespace

Result<InspectedReport> explain_nodes(Console& console, const NodeFlags& nodes, std::string_view event,
                                      const TimeWindow& window, const Inputs* like) {
  ST_ASSIGN(NodeFlags::Target target, nodes.prepare(console));
  confine_to_reading(like == nullptr ? std::vector<std::string>() : like->all(), "", Makes::kFile, Network::kConnects);
  std::optional<ReadReference> right;
  if (like != nullptr) {
    ST_ASSIGN(right, read_reference(*like));
  }
  const size_t asked = target.nodes.size();
  ST_ASSIGN(const std::unique_ptr<fleet::FleetSource> source,
            fleet::FleetSource::open(std::move(target.nodes), {.client = std::move(target.client)}));
  Result<ExplainResult> result = fail("");
  for (size_t answering = asked + 1; source->answering() > 0 && source->answering() < answering;) {
    answering = source->answering();
    result = explain_source(*source, event, window,
                            right ? &right->reference : nullptr);  // again, without nodes that failed in the meantime
  }
  ST_TRY(nodes.judge(console, source->failed(), asked));
  if (!result) {
    return std::unexpected(std::move(result.error()));
  }
  const fleet::FleetSource::Moved& moved = source->moved();
  console.note(fmt::format("{} of {} with {} were moved", format_size(moved.bytes),
                           count_of(moved.recordings, "recording"), format_size(moved.recording_bytes)));
  Report& report = result->report;
  if (auto note = source->no_room_note()) {
    report.notes.insert(report.notes.begin(), *std::move(note));  // of many notes a page has the first ones
  }
  std::ranges::move(source->notes(), std::back_inserter(report.notes));
  if (right) {
    std::ranges::move(right->notes, std::back_inserter(report.notes));
  }
  report.lost_events += static_cast<uint64_t>(source->rows_left_out());
  return InspectedReport{std::move(report), std::move(result->inspection).value_or(Inspection{})};
}

}  // namespace stalltrace::cli
