// SPDX-License-Identifier: Apache-2.0
#include "serve/json/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/text.h"

namespace stalltrace::serve {
namespace {

using Library = nlohmann::ordered_json;

Library to_library(const Json& value) {
  if (const auto* members = value.members()) {
    Library::object_t object;
    object.reserve(members->size());
    for (const auto& [key, member] : *members) {
      object.emplace_back(key, to_library(member));  // keys are unique: emplace_back of the library's map would search
    }
    return object;
  }
  if (const auto* values = value.values()) {
    Library array = Library::array();
    for (const Json& one : *values) {
      array.push_back(to_library(one));
    }
    return array;
  }
  if (const auto* text = value.text()) {
    return *text;
  }
  if (const auto* integer = value.integer()) {
    return *integer;
  }
  if (const auto* real = value.real()) {
    return *real;
  }
  const bool* boolean = value.boolean();
  return boolean != nullptr ? Library(*boolean) : Library(nullptr);
}

/// Builds a value from the library's parser, which does not recurse, and stops it at a limit.
class Builder final : public nlohmann::json_sax<Library> {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  bool null() override { return add(Json()); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(int64_t{value}); }
  bool number_unsigned(number_unsigned_t value) override {
    return value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ? add(static_cast<int64_t>(value))
                                                                               : add(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    constexpr double kExact = 1LL << 53;  // every integer below it has a real of its own
    const bool whole = limits_.whole_reals_are_integers && std::abs(value) < kExact && std::trunc(value) == value;
    return whole ? add(static_cast<int64_t>(value)) : add(value);
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(size_t /*size*/) override { return open(Json::object()); }
  bool start_array(size_t /*size*/) override { return open(Json::array()); }
  bool key(string_t& name) override {
    keys_.back() = std::move(name);
    return open_.back().size() < limits_.members || fail_limit("members in one object", limits_.members);
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    problem_ = fmt::format("not JSON in UTF-8, at byte {}", position);
    return false;
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] Json take() { return std::move(root_); }

 private:
  bool fail_limit(std::string_view what, size_t limit) {
    problem_ = fmt::format("more than {} {}", limit, what);
    return false;
  }
  bool add(Json value) {
    if (++values_ > limits_.values) {
      return fail_limit("values", limits_.values);
    }
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_array()) {
      open_.back().push_back(std::move(value));
    } else {
      open_.back().set(keys_.back(), std::move(value));
    }
    return true;
  }
  bool open(Json value) {
    if (open_.size() == limits_.depth) {
      return fail_limit("values inside each other", limits_.depth);
    }
    open_.push_back(std::move(value));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    Json done = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    return add(std::move(done));
  }

  const JsonLimits& limits_;
  Json root_;
  std::vector<Json> open_;
  std::vector<std::string> keys_;  // of each open object: where the next value goes
  size_t values_ = 0;
  std::string problem_;
};

}  // namespace

Json Json::object(std::initializer_list<Member> members) {
  Json json;
  json.value_ = Object(members);
  return json;
}

double Json::number() const {
  if (const auto* whole = integer()) {
    return static_cast<double>(*whole);
  }
  const double* value = real();
  return value == nullptr ? 0 : *value;
}

Json* Json::find(std::string_view key) {
  auto* object = std::get_if<Object>(&value_);
  if (object == nullptr) {
    return nullptr;
  }
  const auto found = std::ranges::find(*object, key, &Member::first);
  return found == object->end() ? nullptr : &found->second;
}

const Json* Json::find(std::string_view key) const { return const_cast<Json*>(this)->find(key); }

void Json::set(std::string_view key, Json value) {
  if (is_null()) {
    value_ = Object();
  }
  if (Json* member = find(key)) {
    *member = std::move(value);
  } else {
    std::get<Object>(value_).emplace_back(key, std::move(value));
  }
}

void Json::push_back(Json value) {
  if (is_null()) {
    value_ = Array();
  }
  std::get<Array>(value_).push_back(std::move(value));
}

size_t Json::size() const {
  const auto* object = members();
  const auto* array = values();
  return object != nullptr ? object->size() : array != nullptr ? array->size() : 0;
}

std::string Json::dump() const {
  return escape_in_json(to_library(*this).dump(-1, ' ', false, Library::error_handler_t::replace));
}

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  Builder builder(limits);
  if (!Library::sax_parse(text.begin(), text.end(), &builder)) {
    return fail(builder.problem().empty() ? "not JSON" : builder.problem(), {}, ErrorKind::kCorrupt);
  }
  return builder.take();
}

}  // namespace stalltrace::serve
