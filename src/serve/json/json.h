// SPDX-License-Identifier: Apache-2.0
// JSON values for requests and answers. The library behind it is included in json.cpp alone: it takes seconds to
// compile.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace stalltrace::serve {

/// A JSON value. Members of an object keep their order.
class Json {
 public:
  using Member = std::pair<std::string, Json>;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Json(T value) : value_(static_cast<int64_t>(value)) {}
  Json(double value) : value_(value) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}

  static Json object(std::initializer_list<Member> members = {});
  static Json array(std::initializer_list<Json> values = {}) { return {Array(values)}; }

  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  [[nodiscard]] bool is_object() const { return std::holds_alternative<Object>(value_); }
  [[nodiscard]] bool is_array() const { return std::holds_alternative<Array>(value_); }
  [[nodiscard]] bool is_number() const { return integer() != nullptr || std::holds_alternative<double>(value_); }

  // Null if the value is of another type.
  [[nodiscard]] const bool* boolean() const { return std::get_if<bool>(&value_); }
  [[nodiscard]] const int64_t* integer() const { return std::get_if<int64_t>(&value_); }
  [[nodiscard]] const double* real() const { return std::get_if<double>(&value_); }
  [[nodiscard]] const std::string* text() const { return std::get_if<std::string>(&value_); }
  [[nodiscard]] const Array* values() const { return std::get_if<Array>(&value_); }
  [[nodiscard]] const Object* members() const { return std::get_if<Object>(&value_); }
  /// The number's value; 0 for any other type.
  [[nodiscard]] double number() const;

  /// The member of an object; null if there is none, or this is no object.
  [[nodiscard]] const Json* find(std::string_view key) const;
  [[nodiscard]] Json* find(std::string_view key);
  /// Sets a member; a null value becomes an object.
  void set(std::string_view key, Json value);
  /// Appends to an array; a null value becomes an array.
  void push_back(Json value);
  /// Of an array or object; 0 for any other type.
  [[nodiscard]] size_t size() const;

  /// Without line ends. Characters that could control or mislead a terminal are \uXXXX; bytes that are not UTF-8 are
  /// U+FFFD, and a number that JSON has not (infinity) is null.
  [[nodiscard]] std::string dump() const;
  bool operator==(const Json&) const = default;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

struct JsonLimits {
  size_t depth = 32;       // of arrays and objects in each other
  size_t values = 20'000;  // of all types, in total
  size_t members = 256;    // of one object
  bool whole_reals_are_integers = true;
};

/// Parses the whole of `text`, which is untrusted. Of two members with one name the last counts. 5.0 is the
/// integer 5, as in JSON Schema, unless `limits` says otherwise; integers outside of 64 bits become reals. Errors
/// (kCorrupt): not JSON, not UTF-8, a limit.
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace stalltrace::serve
