// SPDX-License-Identifier: Apache-2.0
// The JSON of `explain --instance --json`.
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "report/inspection.h"

namespace stalltrace::report {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const InspectedPart& part) {
  Json causes = Json::array();
  for (const InspectedCause& cause : part.causes) {
    causes.push_back({{"cause", to_text(cause.cause)},
                      {"chosen", cause.chosen},
                      {"applies", cause.applies},
                      {"dismissed", cause.dismissed},
                      {"share", or_null(cause.share)},
                      {"text", cause.text}});
  }
  return {{"part", part.name},
          {"from_ns", part.time.from_ns},
          {"to_ns", part.time.to_ns},
          {"stall", part.stall},
          {"lost_ns", part.lost_ns},
          {"reason", to_text(part.reason)},
          {"value_ns", part.value_ns},
          {"limit_ns", part.limit_ns},
          {"why", part.why},
          {"finding", or_null(part.finding)},
          {"causes", std::move(causes)}};
}

}  // namespace

std::string inspection_to_json(const Inspection& inspection) {
  Json instance{
      {"event", format_event_id(inspection.event_id)},
      {"op", to_text(inspection.op)},
      {"bytes", inspection.bytes},
      {"comm_id_hash", inspection.comm_id_hash == 0 ? Json(nullptr) : Json(format_hash(inspection.comm_id_hash))},
      {"number", inspection.number},
      {"attempt", or_null(inspection.attempt)},
      {"warming_up", inspection.warming_up},
      {"outside_range", inspection.outside_range},
      {"late_ns", inspection.late_ns},
      {"transfer_ns", or_null(inspection.transfer_ns)},
      {"split", or_null(inspection.split)}};
  instance["calls"] = Json::array();
  for (const InspectedCall& call : inspection.calls) {
    instance["calls"].push_back({{"who", call.who}, {"arrival_ns", call.arrival_ns}, {"end_ns", or_null(call.end_ns)}});
  }
  instance["absent"] = inspection.absent;
  const InspectedLike& like = inspection.like;
  instance["like"] = {{"count", like.count},
                      {"enough", like.enough},
                      {"usual_ns", like.usual_ns},
                      {"median_ns", like.median_ns},
                      {"mad_ns", like.mad_ns},
                      {"limit_ns", like.limit_ns},
                      {"late_limit_ns", like.late_limit_ns}};
  if (like.by_reference) {
    instance["like"]["by_reference"] = true;
  }
  instance["parts"] = Json::array();
  for (const InspectedPart& part : inspection.parts) {
    instance["parts"].push_back(to_json(part));
  }
  const Json json{{"schema", Report::kSchema}, {"instance", std::move(instance)}};
  return document_text(json);
}

}  // namespace stalltrace::report
