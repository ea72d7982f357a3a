// SPDX-License-Identifier: Apache-2.0
// Text forms of enumerations: one array of texts in value order. Internal to model/.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace stalltrace {

/// The value with this text.
template <typename Enum, size_t n>
std::optional<Enum> value_with_text(const std::array<std::string_view, n>& texts, std::string_view text) {
  const auto found = std::find(texts.begin(), texts.end(), text);
  return found == texts.end() ? std::nullopt : std::optional(static_cast<Enum>(found - texts.begin()));
}

}  // namespace stalltrace
