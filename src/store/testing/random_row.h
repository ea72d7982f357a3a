// SPDX-License-Identifier: Apache-2.0
// Rows with random fields, for properties that hold for every type; and rows as text, to compare all fields.
#pragma once

#include <fmt/format.h>

#include <random>
#include <string>

#include "store/schema/columns.h"

namespace stalltrace::store {

/// A function for each_column that fills a field. Numbers are small, so that keys and times collide; texts may be
/// empty, optional fields missing.
class RandomField {
 public:
  explicit RandomField(std::mt19937_64& random) : random_(random) {}

  template <typename Field>
  void operator()(const char* /*name*/, Field&& field) {
    fill(field);
  }

 private:
  uint64_t below(uint64_t end) { return random_() % end; }

  void fill(std::string& value) { value = std::string(below(4), static_cast<char>('a' + below(26))); }
  void fill(double& value) { value = static_cast<double>(below(64)) / 4; }
  void fill(bool& value) { value = below(2) == 1; }
  template <typename T>
  requires std::is_integral_v<T>
  void fill(T& value) { value = static_cast<T>(below(7)); }
  template <typename T>
  requires std::is_enum_v<T>
  void fill(T& value) { value = static_cast<T>(below(std::is_same_v<T, Completion> ? 7 : 4)); }
  template <typename T>
  void fill(std::optional<T>& value) {
    value.reset();
    if (below(3) != 0) {
      fill(value.emplace());
    }
  }
  template <typename T>
  void fill(OrNull<T>& field) {
    fill(field.value);
  }
  template <typename T>
  void fill(OrNullUnless<T>& field) {
    fill(field.value);
  }

  std::mt19937_64& random_;
};

template <EventType T>
T random_row(std::mt19937_64& random, NodeId node) {
  T row;
  each_column(row, RandomField(random));
  if constexpr (requires { row.node_id; }) {
    row.node_id = node;
  }
  return row;
}

/// A function for each_column that writes "name=value ".
class FieldText {
 public:
  template <typename Field>
  void operator()(const char* name, const Field& field) {
    text_ += name;
    text_ += '=';
    put(field);
    text_ += ' ';
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  template <typename T>
  void put(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      text_ += to_text(value);
    } else {
      text_ += fmt::format("{}", value);
    }
  }
  template <typename T>
  void put(const std::optional<T>& value) {
    value ? put(*value) : put("none");
  }
  void put(const char* value) { text_ += value; }
  template <typename T>
  void put(const OrNull<T>& field) {
    put(field.value);
  }
  template <typename T>
  void put(const OrNullUnless<T>& field) {
    put(field.value);
  }

  std::string text_;
};

/// All columns of a row, for comparing.
template <EventType T>
std::string text_of(const T& row) {
  FieldText text;
  each_column(row, text);
  return text.text();
}

}  // namespace stalltrace::store
