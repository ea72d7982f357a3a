// SPDX-License-Identifier: Apache-2.0
// Errors inside the library are NCCL's own result codes; the function that finds an error logs it (debug.h).
#pragma once

#include "nccl.h"

/// Returns from the enclosing function with the result of `expression` unless it is ncclSuccess.
#define NCCL_TRY(expression)                                                         \
  do {                                                                               \
    if (const ncclResult_t nccl_result = (expression); nccl_result != ncclSuccess) { \
      return nccl_result;                                                            \
    }                                                                                \
  } while (false)
