// SPDX-License-Identifier: Apache-2.0
#include "serve/requests/request_members.h"

#include <fmt/format.h>

namespace stalltrace::serve {
namespace {

constexpr std::string_view kRemedy = "docs/serve.md has its form";

}  // namespace

Result<Json> request_object(std::string_view body, const JsonLimits& limits) {
  auto json = parse_json(body, limits);
  if (!json || !json->is_object()) {
    return fail("the request's body is not a JSON object of a few members", std::string(kRemedy), ErrorKind::kUsage);
  }
  return *std::move(json);
}

std::unexpected<Error> no_valid_member(std::string_view member) {
  return fail(fmt::format("the request's body has no valid '{}'", member), std::string(kRemedy), ErrorKind::kUsage);
}

int64_t RequestMembers::number(std::string_view name, int64_t low, int64_t high) {
  const Json* member = take(name);
  const int64_t* value = member == nullptr ? nullptr : member->integer();
  if (value == nullptr || *value < low || *value > high) {
    refuse(name);
    return low;
  }
  return *value;
}

bool RequestMembers::boolean(std::string_view name) {
  const Json* member = take(name);
  const bool* value = member == nullptr ? nullptr : member->boolean();
  if (value == nullptr) {
    refuse(name);
  }
  return value != nullptr && *value;
}

std::string RequestMembers::text(std::string_view name, size_t longest) {
  const Json* member = take(name);
  return member == nullptr ? refused(name) : text_of(*member, name, longest);
}

Json::Array RequestMembers::array(std::string_view name, size_t low, size_t high) {
  const Json* member = take(name);
  const Json::Array* values = member == nullptr ? nullptr : member->values();
  if (values == nullptr || values->size() < low || values->size() > high) {
    refuse(name);
    return {};
  }
  return *values;
}

std::string RequestMembers::text_of(const Json& value, std::string_view name, size_t longest) {
  const std::string* text = value.text();
  return text == nullptr || text->empty() || text->size() > longest ? refused(name) : *text;
}

void RequestMembers::refuse(std::string_view name) {
  if (wrong_.empty()) {
    wrong_ = name;
  }
}

Status RequestMembers::status() {
  for (const auto& [name, value] : *object_.members()) {
    if (!taken_.contains(name)) {
      refuse(name);
    }
  }
  return wrong_.empty() ? Status() : no_valid_member(wrong_);
}

const Json* RequestMembers::take(std::string_view name) {
  taken_.insert(std::string(name));
  return object_.find(name);
}

std::string RequestMembers::refused(std::string_view name) {
  refuse(name);
  return {};
}

}  // namespace stalltrace::serve
