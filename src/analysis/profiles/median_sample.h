// SPDX-License-Identifier: Apache-2.0
// The median of more values than are kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/numbers/median.h"

namespace stalltrace::analysis {

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
  [[nodiscard]] int64_t median() const { return stalltrace::median(values_); }

 private:
  static constexpr size_t kMost = 1024;
  std::vector<int64_t> values_;
  int64_t seen_ = 0;
  int64_t stride_ = 1;
};

}  // namespace stalltrace::analysis
