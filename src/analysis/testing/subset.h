// SPDX-License-Identifier: Apache-2.0
// What some nodes recorded of a job.
#pragma once

#include <gtest/gtest.h>

#include <set>

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

}  // namespace stalltrace::analysis
