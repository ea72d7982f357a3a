// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/faults/fault_row.h"

#include <charconv>

namespace stalltrace::lab {

std::optional<double> parameter_number(std::string_view text) {
  double number = 0;
  const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (code != std::errc{} || rest != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

double FaultSpec::number(std::string_view name) const { return parameter_number(choice(name)).value_or(0); }

std::string_view FaultSpec::choice(std::string_view name) const {
  const auto found = values.find(name);
  return found == values.end() ? std::string_view() : std::string_view(found->second);
}

bool FaultSpec::has(std::string_view name) const { return values.contains(name); }

}  // namespace stalltrace::lab
