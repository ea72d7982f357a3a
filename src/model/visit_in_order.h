// SPDX-License-Identifier: Apache-2.0
// Delivers a stream from rows in memory.
#pragma once

#include <algorithm>
#include <vector>

#include "model/source.h"

namespace stalltrace {

/// Visits the rows that belong to `range` in timestamp order; rows with equal times in the order of `rows`. O(n), and
/// O(n log n) if rows are out of order.
template <typename Rows, typename T = typename Rows::value_type>
void visit_in_order(const Rows& rows, TimeRange range, const EventSource::Visitor<T>& visit) {
  std::vector<const T*> found;
  for (const T& row : rows) {
    if (belongs_to(row, range)) {
      found.push_back(&row);
    }
  }
  const auto before = [](const T* a, const T* b) { return a->timestamp_ns < b->timestamp_ns; };
  if (!std::is_sorted(found.begin(), found.end(), before)) {
    std::stable_sort(found.begin(), found.end(), before);
  }
  for (const T* row : found) {
    visit(*row);
  }
}

}  // namespace stalltrace
