// SPDX-License-Identifier: Apache-2.0
// How long an instance of a kind normally takes: a robust summary that a fault, even a lasting one, can't pull up.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/thresholds.h"

namespace stalltrace::analysis {

/// Durations of instances of one class in microseconds; keeps at most kCapacity of them, evenly spread over time.
class BaselineSample {
 public:
  void add(int64_t duration_ns);
  [[nodiscard]] int64_t count() const { return seen_; }

 private:
  friend struct Baseline;
  static constexpr size_t kCapacity = 8192;
  std::vector<uint32_t> values_us_;
  int64_t seen_ = 0;
  int64_t stride_ = 1;
};

struct Baseline {
  int64_t usual_ns = 0;
  int64_t limit_ns = kNoBaselineFloorNs;  // longer than this is a stall
  bool known = false;
  int64_t count = 0;  // instances that it is made of

  static Baseline of(BaselineSample& sample);
};

}  // namespace stalltrace::analysis
