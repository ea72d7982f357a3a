// SPDX-License-Identifier: Apache-2.0
#include "export/encode/shown_text.h"

#include <algorithm>

#include "base/text.h"

namespace stalltrace::trace_export {

std::string shown_text(std::string_view text) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~'; };
  if (text.size() <= kLongestText && std::ranges::all_of(text, is_plain)) {
    return std::string(text);  // as nearly all are
  }
  constexpr std::string_view kCut = " ...";
  const bool cut = text.size() > kLongestText;
  if (cut) {
    text = text.substr(0, kLongestText - kCut.size());
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0U) == 0x80U) {
      text.remove_suffix(1);  // the rest of a character
    }
    if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xc0U) {
      text.remove_suffix(1);
    }
  }
  std::string shown;
  for (const std::string_view line : split(text, '\n')) {
    shown += (line.data() == text.data() ? "" : "\n") + printable(line);
  }
  return cut ? shown + std::string(kCut) : shown;
}

}  // namespace stalltrace::trace_export
