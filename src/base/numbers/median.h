// SPDX-License-Identifier: Apache-2.0
// The middle of some values. Linear in their number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace stalltrace {

/// The upper one of two in the middle; T{} of none. The result is one of the values.
template <typename T>
T median(std::vector<T> values) {
  if (values.empty()) {
    return T{};
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// The same, but the lower one of two in the middle: for waits that half of all have had at least.
template <typename T>
T lower_median(std::vector<T> values) {
  if (values.empty()) {
    return T{};
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// The mean of the two in the middle, where there are two: for estimates of a scale.
inline double mean_median(const std::vector<double>& values) {
  return values.size() % 2 == 1 ? median(values) : (lower_median(values) + median(values)) / 2;
}

}  // namespace stalltrace
