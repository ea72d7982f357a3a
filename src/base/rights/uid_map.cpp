// SPDX-License-Identifier: Apache-2.0
#include "base/rights/uid_map.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/text.h"

namespace stalltrace {

std::vector<UidRange> parse_uid_map(std::string_view text) {
  constexpr int64_t kMost = UINT32_MAX;
  std::vector<UidRange> ranges;
  for (const std::string_view line : split(text, '\n')) {
    std::array<int64_t, 3> numbers{};
    size_t found = 0;
    for (const std::string_view word : split(line, ' ')) {
      if (const auto number = parse_integer(word);
          number && *number >= 0 && *number <= kMost && found < numbers.size()) {
        numbers.at(found++) = *number;
      }
    }
    if (found == numbers.size()) {
      ranges.push_back({.inside = numbers[0], .outside = numbers[1], .count = numbers[2]});
    }
  }
  return ranges;
}

}  // namespace stalltrace
