// SPDX-License-Identifier: Apache-2.0
// The usual duration of comparable instances: a robust summary that even a lasting fault can't raise.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/thresholds/stalls.h"

namespace stalltrace::analysis {

/// Where the middle of some durations is, and how far they are from it: for readers, no verdict uses it.
struct Spread {
  int64_t median_ns = 0;
  int64_t deviation_ns = 0;  // median absolute deviation
};

/// Durations of instances of one class in microseconds; keeps at most kCapacity of them, evenly spread over time.
class BaselineSample {
 public:
  void add(int64_t duration_ns);
  [[nodiscard]] int64_t count() const { return seen_; }
  /// Zeros of none.
  [[nodiscard]] Spread spread() const;

 private:
  friend struct Baseline;
  static constexpr size_t kCapacity = 8192;
  std::vector<uint32_t> values_us_;
  int64_t seen_ = 0;
  int64_t stride_ = 1;
};

struct Baseline {
  int64_t usual_ns = 0;
  int64_t limit_ns = kNoBaselineFloorNs;  // a longer duration is a stall
  bool known = false;
  int64_t scatter_ns = 0;     // kScatterFactor times the scatter below the usual, at least the floor
  int64_t count = 0;          // number of instances that it is made of
  bool by_reference = false;  // they are those of another run, which was right (reference.h)

  /// Of fewer than `at_least` durations none is known. `floor_ns`: the least that is above what is usual.
  static Baseline of_all(const BaselineSample& sample, int64_t at_least = kBaselineInstances,
                         int64_t floor_ns = kStallFloorNs);
  /// The same; where durations became longer for good, of those before. They count in the order in which they were
  /// added.
  static Baseline of(const BaselineSample& sample, int64_t at_least = kBaselineInstances);
};

}  // namespace stalltrace::analysis
