// SPDX-License-Identifier: Apache-2.0
// What every room that writes JSON needs of it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/text.h"

namespace stalltrace {

/// null where there is no value.
template <typename T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

/// A document as it is printed, indented. Names come from the kernel and the command line: bytes that are not UTF-8 are
/// replaced instead of causing an exception.
inline std::string document_text(const nlohmann::ordered_json& json) {
  return escape_in_json(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) + "\n";
}

/// A document as a line for programs.
inline std::string line_text(const nlohmann::ordered_json& json) {
  return escape_in_json(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) + "\n";
}

}  // namespace stalltrace
