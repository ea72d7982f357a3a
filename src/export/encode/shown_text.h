// SPDX-License-Identifier: Apache-2.0
// Texts of recordings as a viewer may get them.
#pragma once

#include <string>
#include <string_view>

namespace stalltrace::trace_export {

/// The longest text of a file; a longer one is cut.
inline constexpr size_t kLongestText = 16'384;

/// Printable (base/text.h), but with its line ends: valid UTF-8 without control characters, at most kLongestText bytes
/// and a mark where it was cut.
std::string shown_text(std::string_view text);

}  // namespace stalltrace::trace_export
