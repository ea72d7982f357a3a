// SPDX-License-Identifier: Apache-2.0
// By what the result of `stalltrace autopsy` is recognised as a file: the room that writes it and the one that detects
// formats know this alone of each other.
#pragma once

#include <string_view>

namespace stalltrace {

/// The first member of its JSON object.
inline constexpr std::string_view kMadeBy = "made_by";
inline constexpr std::string_view kMadeByAutopsy = "stalltrace autopsy";

}  // namespace stalltrace
