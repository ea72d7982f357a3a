// SPDX-License-Identifier: Apache-2.0
// The different shapes of a recording's calls, numbered as they turn up. Internal to the timeline.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "analysis/timeline.h"

namespace stalltrace::analysis {

class ShapeTable {
 public:
  /// Fills `shapes`, which outlives the table.
  explicit ShapeTable(std::vector<Shape>& shapes) : shapes_(shapes) {}

  uint16_t index_of(const Collective& row);

 private:
  std::vector<Shape>& shapes_;
  std::unordered_map<uint64_t, uint16_t> index_;
  std::unordered_map<uint64_t, uint16_t> like_index_;  // by operation and size alone
  Shape last_{.bytes = -1};
  uint16_t last_index_ = 0;
};

}  // namespace stalltrace::analysis
