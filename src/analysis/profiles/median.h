// SPDX-License-Identifier: Apache-2.0
// The median of the profiles.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace stalltrace::analysis {

/// The upper one of two in the middle; 0 of none. Reorders `values`.
inline int64_t median_of(std::vector<int64_t>& values) {
  if (values.empty()) {
    return 0;
  }
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace stalltrace::analysis
