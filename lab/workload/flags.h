// SPDX-License-Identifier: Apache-2.0
// Command line of a practice job: flags are rows, read by one loop. For nccl-train and mpi-train.
#pragma once

#include <charconv>
#include <expected>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace lab {

struct Flag {
  std::string_view name;                      // "--steps"
  std::function<bool(std::string_view)> set;  // takes the value as typed; false: invalid
  bool takes_value = true;                    // else `set` gets an empty text
};

/// The whole of `text` as a number, not below 0.
template <typename T>
bool parse_number(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.begin(), text.end(), *value);
  return error == std::errc() && end == text.end() && *value >= 0;
}

/// A setter that stores a number, not below 0.
template <typename T>
std::function<bool(std::string_view)> number(T* value) {
  return [value](std::string_view text) { return parse_number(text, value); };
}

/// Passes each argument to its flag, in order. The error is a message for the user; empty after --help or -h.
std::expected<void, std::string> parse_flags(int argc, char** argv, std::span<const Flag> flags);

}  // namespace lab
