// SPDX-License-Identifier: Apache-2.0
#include "import/word_search.h"

#include <algorithm>
#include <utility>

namespace stalltrace::import {
namespace {

size_t pair_at(std::string_view text, size_t at) {
  return size_t{static_cast<uint8_t>(text[at])} << 8U | static_cast<uint8_t>(text[at + 1]);
}

}  // namespace

WordSearch::WordSearch(std::vector<std::string_view> words) : words_(std::move(words)) {
  skips_.fill(kShortest - 1);
  for (const std::string_view word : words_) {
    for (size_t at = 0; at + 1 < kShortest; ++at) {
      uint8_t& skip = skips_[pair_at(word, at)];
      skip = static_cast<uint8_t>(std::min<size_t>(skip, kShortest - 2 - at));
    }
  }
}

bool WordSearch::begins_at(std::string_view text) const {
  return std::ranges::any_of(words_, [text](std::string_view word) { return text.starts_with(word); });
}

bool WordSearch::any_in(std::string_view text) const {
  for (size_t end = kShortest; end <= text.size();) {
    const size_t skip = skips_[pair_at(text, end - 2)];
    if (skip == 0 && begins_at(text.substr(end - kShortest))) {
      return true;
    }
    end += std::max<size_t>(skip, 1);
  }
  return false;
}

}  // namespace stalltrace::import
