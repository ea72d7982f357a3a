// SPDX-License-Identifier: Apache-2.0
// The union of intervals, and how much of any time it covers.
#pragma once

#include <cstdint>
#include <vector>

#include "model/time_range.h"

namespace stalltrace::import {

class Coverage {
 public:
  Coverage() = default;
  /// `intervals` in order of their beginnings.
  explicit Coverage(const std::vector<TimeRange>& intervals);

  /// What both cover.
  [[nodiscard]] Coverage both(const Coverage& other) const;
  /// What either covers.
  [[nodiscard]] Coverage either(const Coverage& other) const;
  /// The covered part of [begin_ns, end_ns).
  [[nodiscard]] int64_t covered_ns(int64_t begin_ns, int64_t end_ns) const;

 private:
  [[nodiscard]] int64_t before_ns(int64_t time_ns) const;

  std::vector<TimeRange> parts_;  // disjoint, in order
  std::vector<int64_t> sums_;     // covered by the parts before each
};

}  // namespace stalltrace::import
