// SPDX-License-Identifier: Apache-2.0
// After how many values a sequence begins again.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace stalltrace {

/// The smallest period of the whole sequence, by the failure function of Knuth, Morris and Pratt; its length if it has
/// none. Linear.
template <typename T>
size_t period_of(std::span<const T> values) {
  std::vector<size_t> border(values.size());
  size_t length = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    while (length > 0 && values[i] != values[length]) {
      length = border[length - 1];
    }
    length += values[i] == values[length] ? 1 : 0;
    border[i] = length;
  }
  return values.empty() ? 0 : values.size() - border.back();
}

}  // namespace stalltrace
