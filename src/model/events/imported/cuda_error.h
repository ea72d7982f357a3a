// SPDX-License-Identifier: Apache-2.0
// The fixed texts of CUDA's errors (cudaGetErrorString), as PyTorch prints them: they hold no data of the program.
#pragma once

#include <cstdint>
#include <string_view>

namespace stalltrace {

inline constexpr std::string_view kCudaErrorPrefix = "CUDA error: ";

struct CudaError {
  enum class Of : uint8_t {
    kDevice,     // the GPU, its memory or its links
    kProgram,    // as a rule a kernel of the program
    kUndecided,  // the device, the driver or the program
    kMemory,     // the GPU's memory is full
  };
  std::string_view text;  // "uncorrectable ECC error encountered"
  Of of = Of::kUndecided;
};

/// Null: the line has none of these behind kCudaErrorPrefix.
const CudaError* cuda_error_in(std::string_view line);

}  // namespace stalltrace
