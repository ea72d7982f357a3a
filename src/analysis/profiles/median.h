// SPDX-License-Identifier: Apache-2.0
// Medians of the profiles.
#pragma once

#include <algorithm>
#include <cstddef>
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

/// The median of any number of values in bounded memory: of every n-th one, evenly spread over all.
class MedianSample {
 public:
  void add(int64_t value) {
    if (seen_++ % stride_ != 0) {
      return;
    }
    values_.push_back(value);
    if (values_.size() == kMost) {
      for (size_t i = 0; i < kMost / 2; ++i) {
        values_[i] = values_[2 * i];
      }
      values_.resize(kMost / 2);
      stride_ *= 2;
    }
  }
  [[nodiscard]] bool empty() const { return values_.empty(); }
  [[nodiscard]] int64_t median() const {
    std::vector<int64_t> values = values_;
    return median_of(values);
  }

 private:
  static constexpr size_t kMost = 1024;
  std::vector<int64_t> values_;
  int64_t seen_ = 0;
  int64_t stride_ = 1;
};

}  // namespace stalltrace::analysis
