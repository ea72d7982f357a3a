// SPDX-License-Identifier: Apache-2.0
// Whether any of some words is in a text, at the speed of memory: gigabytes of output are searched for a few lines.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace stalltrace::import {

/// After Wu and Manber ("A fast algorithm for multi-pattern searching", 1994): two bytes of the text show how many
/// others can be skipped, since no word begins there.
class WordSearch {
 public:
  static constexpr size_t kShortest = 7;

  /// What the words point to outlives the object; each has at least kShortest bytes.
  explicit WordSearch(std::vector<std::string_view> words);

  [[nodiscard]] bool any_in(std::string_view text) const;

 private:
  [[nodiscard]] bool begins_at(std::string_view text) const;

  std::vector<std::string_view> words_;
  std::array<uint8_t, size_t{1} << 16> skips_{};  // by the last two bytes of a window of kShortest
};

}  // namespace stalltrace::import
