// SPDX-License-Identifier: Apache-2.0
#include "model/json/evidence_json.h"

#include <nlohmann/json.hpp>

namespace stalltrace {

nlohmann::ordered_json evidence_to_json(const Evidence& evidence) {
  nlohmann::ordered_json json{{"kind", evidence.kind}, {"count", evidence.count}, {"text", evidence.text}};
  if (!evidence.events.empty()) {
    auto events = nlohmann::ordered_json::array();
    for (const EventId id : evidence.events) {
      events.push_back(format_event_id(id));
    }
    json["events"] = std::move(events);
  }
  return json;
}

std::string evidence_to_text(const std::vector<Evidence>& evidence) {
  auto list = nlohmann::ordered_json::array();
  for (const Evidence& item : evidence) {
    list.push_back(evidence_to_json(item));
  }
  return list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::vector<Evidence> evidence_from_text(const std::string& text) {
  std::vector<Evidence> evidence;
  const nlohmann::json list = nlohmann::json::parse(text, nullptr, false);
  if (!list.is_array()) {
    return evidence;
  }
  const auto text_of = [](const nlohmann::json& item, const char* key) {
    const auto found = item.find(key);
    return found != item.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  for (const nlohmann::json& item : list) {
    if (!item.is_object()) {
      continue;
    }
    Evidence& one = evidence.emplace_back();
    one.kind = text_of(item, "kind");
    one.text = text_of(item, "text");
    const auto count = item.find("count");
    one.count = count != item.end() && count->is_number_integer() ? count->get<int64_t>() : 0;
    const auto events = item.find("events");
    for (const nlohmann::json& event : events != item.end() ? *events : nlohmann::json::array()) {
      if (const auto id = event.is_string() ? parse_event_id(event.get<std::string>()) : std::nullopt) {
        one.events.push_back(*id);
      }
    }
  }
  return evidence;
}

}  // namespace stalltrace
