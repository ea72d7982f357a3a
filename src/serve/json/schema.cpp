// SPDX-License-Identifier: Apache-2.0
#include "serve/json/schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace stalltrace::serve::schema {
namespace {

Json of_type(std::string_view type, std::string_view description) {
  Json schema = Json::object({{"type", type}});
  if (!description.empty()) {
    schema.set("description", description);
  }
  return schema;
}

bool has_type(const Json& value, std::string_view type) {
  return type == "object"    ? value.is_object()
         : type == "array"   ? value.is_array()
         : type == "string"  ? value.text() != nullptr
         : type == "integer" ? value.integer() != nullptr
         : type == "number"  ? value.is_number()
         : type == "boolean" ? value.boolean() != nullptr
                             : false;
}

/// "limit: " before a problem; nothing at the root.
std::string at(const std::string& path, std::string problem) { return path.empty() ? problem : path + ": " + problem; }

/// A value for an error message: its beginning, printable.
std::string shown(const Json& value) {
  constexpr size_t kMostBytes = 60;
  const std::string text = value.dump();
  return printable(text.size() > kMostBytes ? text.substr(0, kMostBytes) + "..." : text);
}

/// As JSON Schema counts them. `text` is UTF-8, where all bytes of a character but its first are 10xxxxxx.
int64_t characters_of(std::string_view text) {
  return std::ranges::count_if(text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; });
}

class Check {
 public:
  explicit Check(Strictness strictness) : strictness_(strictness) {}

  [[nodiscard]] std::string check(const Json& value, const Json& schema, const std::string& path) const {
    const Json* type = schema.find("type");
    if (type != nullptr && !has_type(value, *type->text())) {
      return at(path, fmt::format("{} is no {}", shown(value), *type->text()));
    }
    if (const Json* texts = schema.find("enum");
        texts != nullptr && std::ranges::find(*texts->values(), value) == texts->values()->end()) {
      std::vector<std::string> allowed;
      for (const Json& one : *texts->values()) {
        allowed.push_back(*one.text());
      }
      return at(path, fmt::format("{} is none of {}", shown(value), fmt::join(allowed, ", ")));
    }
    if (value.is_number()) {
      return check_number(value, schema, path);
    }
    if (const std::string* text = value.text()) {
      const Json* longest = schema.find("maxLength");
      return longest != nullptr && std::cmp_greater(characters_of(*text), *longest->integer())
                 ? at(path, fmt::format("longer than {} characters", *longest->integer()))
                 : "";
    }
    if (value.is_array()) {
      return check_array(value, schema, path);
    }
    return value.is_object() ? check_object(value, schema, path) : "";
  }

 private:
  static std::string check_number(const Json& value, const Json& schema, const std::string& path) {
    if (const Json* least = schema.find("minimum"); least != nullptr && value.number() < least->number()) {
      return at(path, fmt::format("{} is less than {}", shown(value), least->dump()));
    }
    if (const Json* most = schema.find("maximum"); most != nullptr && value.number() > most->number()) {
      return at(path, fmt::format("{} is more than {}", shown(value), most->dump()));
    }
    return "";
  }

  [[nodiscard]] std::string check_array(const Json& value, const Json& schema, const std::string& path) const {
    const Json* items = schema.find("items");
    for (size_t i = 0; items != nullptr && i < value.values()->size(); ++i) {
      if (std::string problem = check((*value.values())[i], *items, fmt::format("{}[{}]", path, i)); !problem.empty()) {
        return problem;
      }
    }
    return "";
  }

  [[nodiscard]] std::string check_object(const Json& value, const Json& schema, const std::string& path) const {
    const Json* required = schema.find("required");
    for (size_t i = 0; required != nullptr && i < required->size(); ++i) {
      const std::string& name = *(*required->values())[i].text();
      if (value.find(name) == nullptr) {
        return at(path, fmt::format("'{}' is missing", name));
      }
    }
    const Json* properties = schema.find("properties");
    const Json* others = schema.find("additionalProperties");
    const bool closed = (others != nullptr && others->boolean() != nullptr && !*others->boolean()) ||
                        (strictness_ == Strictness::kNoOther && properties != nullptr);
    for (const auto& [name, member] : *value.members()) {
      const Json* known = properties == nullptr ? nullptr : properties->find(name);
      if (known == nullptr && closed) {
        return at(path, fmt::format("there is no '{}'", printable(name.substr(0, 60))));
      }
      if (known != nullptr) {
        if (std::string problem = check(member, *known, path.empty() ? name : path + "." + name); !problem.empty()) {
          return problem;
        }
      }
    }
    return "";
  }

  Strictness strictness_;
};

}  // namespace

Json object(std::vector<Field> fields, std::string_view description, bool closed) {
  Json schema = of_type("object", description);
  Json properties = Json::object();
  Json names = Json::array();
  for (Field& field : fields) {
    if (field.required) {
      names.push_back(field.name);
    }
    properties.set(field.name, std::move(field.schema));
  }
  if (closed || properties.size() > 0) {
    schema.set("properties", std::move(properties));
  }
  if (names.size() > 0) {
    schema.set("required", std::move(names));
  }
  if (closed) {
    schema.set("additionalProperties", false);
  }
  return schema;
}

Json list_of(Json items, std::string_view description) {
  Json schema = of_type("array", description);
  schema.set("items", std::move(items));
  return schema;
}

Json text(std::string_view description, std::optional<int64_t> longest) {
  Json schema = of_type("string", description);
  if (longest) {
    schema.set("maxLength", *longest);
  }
  return schema;
}

Json integer(std::string_view description, std::optional<int64_t> least, std::optional<int64_t> most) {
  Json schema = of_type("integer", description);
  if (least) {
    schema.set("minimum", *least);
  }
  if (most) {
    schema.set("maximum", *most);
  }
  return schema;
}

Json number(std::string_view description) { return of_type("number", description); }
Json boolean(std::string_view description) { return of_type("boolean", description); }

Json one_of(const std::vector<std::string_view>& texts, std::string_view description) {
  Json schema = of_type("string", description);
  Json values = Json::array();
  for (const std::string_view one : texts) {
    values.push_back(one);
  }
  schema.set("enum", std::move(values));
  return schema;
}

Json anything(std::string_view description) {
  Json schema = Json::object();
  if (!description.empty()) {
    schema.set("description", description);
  }
  return schema;
}

std::string problem_with(const Json& value, const Json& schema, Strictness strictness) {
  return Check(strictness).check(value, schema, "");
}

}  // namespace stalltrace::serve::schema
