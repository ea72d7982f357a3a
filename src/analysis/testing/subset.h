// SPDX-License-Identifier: Apache-2.0
// What some nodes recorded of a job.
#pragma once

#include <gtest/gtest.h>

#include <set>

#include "analysis/testing/small_job.h"
#include "model/memory_source.h"

namespace stalltrace::analysis {

inline MemorySource recorded_on(const std::set<NodeId>& nodes, MemorySource& whole) {
  MemorySource part;
  const auto accept = [&](const auto& row) {
    if constexpr (requires { row.node_id; }) {
      if (!nodes.contains(row.node_id)) {
        return;
      }
    }
    part.accept(row);
  };
  for_each_type(kStateTypes, [&]<typename T>() {
    const Result<std::vector<T>> rows = whole.all<T>();
    for (const T& row : *rows) {
      accept(row);
    }
  });
  for_each_type(kStreamedTypes, [&]<typename T>() {
    EXPECT_TRUE(whole.stream<T>({}, [&](const T& row) { accept(row); }).has_value());
  });
  return part;
}

namespace small_job {

/// Bit i of `subset`: rank i is in it.
inline std::set<int> ranks_in(unsigned subset) {
  std::set<int> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    if ((subset >> rank & 1) != 0) {
      ranks.insert(rank);
    }
  }
  return ranks;
}

inline std::set<NodeId> nodes_of(const std::set<int>& ranks) {
  std::set<NodeId> nodes;
  for (const int rank : ranks) {
    nodes.insert(node_of_rank(rank));
  }
  return nodes;
}

}  // namespace small_job
}  // namespace stalltrace::analysis
