// SPDX-License-Identifier: Apache-2.0
// The table of probed calls: a new symbol is a new row, never a new function. A row's index is its attach cookie.
#pragma once

#include <span>
#include <string_view>

#include "model/operation.h"
#include "wire/collective.h"

namespace stalltrace::capture {

/// Which library a row belongs to. A process is traced when it maps a file with collective rows; the other families
/// matter only inside such a process.
enum class CallFamily : uint8_t { kCollectiveLibrary, kGpuRuntime, kFramework };

struct Call {
  std::string_view symbol;
  CallFamily family;
  st_call_spec spec;
};

/// All rows. Argument slots are from NVIDIA's nccl.h (2.30), cuda_runtime_api.h and cuda.h (13), AMD's
/// hip_runtime_api.h (6), and the MPI standard (3.1). Offsets are from Gloo's option structs;
/// tests/bpf/gloo_root_test.cpp checks them against the real library. See st_call_spec. At most ST_MAX_CALLS.
std::span<const Call> call_table();

}  // namespace stalltrace::capture
