// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <algorithm>
#include <cstring>

namespace stalltrace {

uint64_t splitmix64_text(std::string_view text, uint64_t seed) {
  uint64_t hash = seed;
  for (size_t at = 0; at < text.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
    hash = splitmix64_fold(hash, word);
  }
  return splitmix64_fold(hash, text.size());
}

}  // namespace stalltrace
