// SPDX-License-Identifier: Apache-2.0
// Test data whose sums over the ranks are small whole numbers, exact in every datatype the workload offers.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace lab::workload {

size_t type_bytes(ncclDataType_t type);

/// Rank r's element i of the data called `salt`: 0 to 7.
unsigned pattern(int rank, size_t i, long salt);

/// The bytes of `count` elements, element i holding value(i), a whole number below 2048 (256 in bfloat16).
std::vector<std::byte> encode(ncclDataType_t type, size_t count, const std::function<unsigned(size_t)>& value);

}  // namespace lab::workload
