// SPDX-License-Identifier: Apache-2.0
// The reduction kernels: all integers, float16, bfloat16, float32 and float64, for sum, prod, max, min and avg.
#pragma once

#include <cstddef>

#include "nccl.h"

namespace lab::nccl {

/// Bytes of one element; 0 for an unknown datatype.
size_t element_bytes(ncclDataType_t type);

/// Combines two ranks' contributions, element by element.
class Reducer {
 public:
  Reducer() = default;
  Reducer(ncclDataType_t type, ncclRedOp_t op, int nranks);

  /// False for a datatype or operation without a kernel (the 8-bit floats).
  static bool supports(ncclDataType_t type, ncclRedOp_t op);

  /// result = own (op) other, all of `bytes`; `result` may be either input. `last` divides an average by nranks.
  void combine(const std::byte* own, const std::byte* other, std::byte* result, size_t bytes, bool last) const;

 private:
  using Kernel = void (*)(const void* a, const void* b, void* out, size_t count);
  using Divide = void (*)(void* values, size_t count, int by);

  Kernel kernel_ = nullptr;
  Divide divide_ = nullptr;
  size_t element_bytes_ = 1;
  int nranks_ = 1;
};

}  // namespace lab::nccl
