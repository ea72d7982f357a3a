// SPDX-License-Identifier: Apache-2.0
// JSON Schemas of arguments and answers: a way to write them down, and a check of values against them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/json/json.h"

namespace stalltrace::serve::schema {

struct Field {
  std::string name;
  Json schema;
  bool required = false;
};
inline Field required(std::string name, Json schema) { return {std::move(name), std::move(schema), true}; }
inline Field optional(std::string name, Json schema) { return {std::move(name), std::move(schema), false}; }

/// Without fields: any object. `closed`: no other members are allowed. Answers are open, so that a later version can
/// add some.
Json object(std::vector<Field> fields, std::string_view description = {}, bool closed = false);
Json list_of(Json items, std::string_view description = {});
Json text(std::string_view description = {}, std::optional<int64_t> longest = {});
Json integer(std::string_view description = {}, std::optional<int64_t> least = {}, std::optional<int64_t> most = {});
Json number(std::string_view description = {});
Json boolean(std::string_view description = {});
Json one_of(const std::vector<std::string_view>& texts, std::string_view description = {});
Json anything(std::string_view description = {});

enum class Strictness : uint8_t {
  kAsWritten,
  kNoOther,  // a member without a schema is an error, whatever the schema says
};

/// Empty, or what is wrong, with the path: "limit: 0 is less than 1". Knows the keywords that the functions above
/// write: type, properties, required, additionalProperties, items, enum, minimum, maximum, maxLength.
std::string problem_with(const Json& value, const Json& schema, Strictness strictness = Strictness::kAsWritten);

}  // namespace stalltrace::serve::schema
