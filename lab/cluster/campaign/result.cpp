// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/campaign/result.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace stalltrace::lab {
namespace {

using Json = nlohmann::ordered_json;

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

std::optional<double> read_number(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<double>());
}

Json fault_json(const FaultScore& fault) {
  return {{"cause", fault.cause},
          {"reported", fault.reported},
          {"findings", fault.findings},
          {"latency_ms", number(fault.latency_ms)},
          {"cost_ms", number(fault.cost_ms)},
          {"cost_share", number(fault.cost_share)},
          {"reported_ms", number(fault.reported_ms)}};
}

FaultScore read_fault(const Json& json) {
  return {.cause = json.at("cause").get<std::string>(),
          .reported = json.at("reported").get<std::string>(),
          .findings = json.at("findings").get<int64_t>(),
          .latency_ms = read_number(json.at("latency_ms")),
          .cost_ms = read_number(json.at("cost_ms")),
          .cost_share = read_number(json.at("cost_share")),
          .reported_ms = read_number(json.at("reported_ms"))};
}

DrawKind read_kind(const std::string& text) {
  const auto found = std::ranges::find_if(kDrawKinds, [&](DrawKind kind) { return to_text(kind) == text; });
  return found == std::end(kDrawKinds) ? DrawKind::kHealthy : *found;
}

Draw read_draw(const Json& json) {
  return {.number = json.at("draw").get<int64_t>(),
          .setting = json.at("setting").get<std::string>(),
          .kind = read_kind(json.at("kind").get<std::string>()),
          .workload = json.at("workload").get<std::string>(),
          .arguments = json.at("arguments").get<std::vector<std::string>>()};
}

DrawResult read_result(const Json& json) {
  DrawResult result{.draw = read_draw(json)};
  result.score.verdict = verdict_from_text(json.at("verdict").get<std::string>()).value_or(DrawVerdict::kJobFailed);
  for (const Json& fault : json.at("faults")) {
    result.score.faults.push_back(read_fault(fault));
  }
  result.score.false_causes = json.at("false").get<std::vector<std::string>>();
  result.score.live_false = json.at("live_false").get<std::vector<std::string>>();
  result.score.blames_innocent = json.at("blames_innocent").get<bool>();
  result.score.waiting = json.at("waiting").get<int64_t>();
  for (const Json& assertion : json.at("assertions")) {
    result.score.assertions.push_back({assertion.at("confidence").get<double>(), assertion.at("correct").get<bool>()});
  }
  result.problem = json.at("problem").get<std::string>();
  result.seconds = json.at("seconds").get<double>();
  result.program = json.value("program", "");
  return result;
}

}  // namespace

std::string to_json_line(const DrawResult& result) {
  Json faults = Json::array();
  for (const FaultScore& fault : result.score.faults) {
    faults.push_back(fault_json(fault));
  }
  Json assertions = Json::array();
  for (const Assertion& assertion : result.score.assertions) {
    assertions.push_back({{"confidence", assertion.confidence}, {"correct", assertion.correct}});
  }
  const Json json = {{"draw", result.draw.number},
                     {"rules", kScoringRules},
                     {"setting", result.draw.setting},
                     {"kind", to_text(result.draw.kind)},
                     {"workload", result.draw.workload},
                     {"verdict", to_text(result.score.verdict)},
                     {"faults", faults},
                     {"false", result.score.false_causes},
                     {"live_false", result.score.live_false},
                     {"blames_innocent", result.score.blames_innocent},
                     {"waiting", result.score.waiting},
                     {"assertions", assertions},
                     {"problem", result.problem},
                     {"seconds", result.seconds},
                     {"program", result.program},
                     {"arguments", result.draw.arguments}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

namespace {

/// Only here, the library throws if a key is missing or of another type.
template <typename Read>
auto read_line(std::string_view line, Read read) -> decltype(read(Json())) {
  try {
    return read(Json::parse(line));
  } catch (const Json::exception& error) {
    return fail(std::string("a line of draws.jsonl: ") + error.what(), {}, ErrorKind::kCorrupt);
  }
}

}  // namespace

Result<DrawResult> draw_result_from_json(std::string_view line) {
  return read_line(line, [](const Json& json) -> Result<DrawResult> {
    (void)json.at("draw").get<int64_t>();
    if (json.value("rules", 1) != kScoringRules) {
      return fail("a line of draws.jsonl that was scored by other rules", {}, ErrorKind::kUnsupported);
    }
    return read_result(json);
  });
}

Result<Draw> draw_from_json(std::string_view line) {
  return read_line(line, [](const Json& json) -> Result<Draw> { return read_draw(json); });
}

}  // namespace stalltrace::lab
