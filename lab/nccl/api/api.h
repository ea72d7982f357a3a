// SPDX-License-Identifier: Apache-2.0
// Definition of the exported functions: pncclX holds the code, ncclX is a weak alias of it at the same address. No
// exception leaves the library.
#pragma once

#include <exception>

#include "debug.h"
#include "nccl.h"

#define NCCL_API(type, name, parameters)                                             \
  extern "C" [[gnu::weak, gnu::alias("p" #name)]] type name parameters; /* NOLINT */ \
  extern "C" type p##name parameters

namespace lab::nccl {

/// Runs the body of an exported function; lack of memory or threads is a system error, as in the real library.
template <typename Body>
ncclResult_t guarded(const char* name, Body body) noexcept {
  try {
    return body();
  } catch (const std::exception& error) {
    NCCL_WARN("%s : %s", name, error.what());
    return ncclSystemError;
  }
}

}  // namespace lab::nccl
