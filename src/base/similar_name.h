// SPDX-License-Identifier: Apache-2.0
// "Did you mean ...?"
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace stalltrace {

/// The one of `names` that `typed` was probably meant to be: equal but for upper and lower case, or at most two letters
/// (half of the name, where that is less) added, left out or changed. The nearest; of equals the first. None: no
/// name is near. Returns a view into `names`.
std::optional<std::string_view> similar_name(std::string_view typed, std::span<const std::string_view> names);

}  // namespace stalltrace
