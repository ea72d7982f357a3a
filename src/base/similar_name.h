// SPDX-License-Identifier: Apache-2.0
// "Did you mean ...?"
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace stalltrace {

/// The member of `names` that `typed` probably meant: equal except for case, or with at most two letters added, removed
/// or changed (at most half of the name's letters). The nearest wins, then the first. nullopt if no name is close.
/// Returns a view into `names`.
std::optional<std::string_view> similar_name(std::string_view typed, std::span<const std::string_view> names);

}  // namespace stalltrace
