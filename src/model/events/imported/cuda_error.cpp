// SPDX-License-Identifier: Apache-2.0
#include "model/events/imported/cuda_error.h"

#include <algorithm>
#include <array>

namespace stalltrace {
namespace {

using Of = CudaError::Of;

constexpr std::array kErrors{
    CudaError{"uncorrectable ECC error encountered", Of::kDevice},
    CudaError{"uncorrectable NVLink error detected during the execution", Of::kDevice},
    CudaError{"an illegal memory access was encountered", Of::kProgram},
    CudaError{"an illegal instruction was encountered", Of::kProgram},
    CudaError{"misaligned address", Of::kProgram},
    CudaError{"invalid program counter", Of::kProgram},
    CudaError{"operation not supported on global/shared address space", Of::kProgram},
    CudaError{"device-side assert triggered", Of::kProgram},
    CudaError{"Invalid access of peer GPU memory over nvlink or a hardware error", Of::kUndecided},
    CudaError{"hardware stack error", Of::kUndecided},
    CudaError{"unspecified launch failure", Of::kUndecided},
    CudaError{"the launch timed out and was terminated", Of::kUndecided},
    CudaError{"CUDA-capable device(s) is/are busy or unavailable", Of::kUndecided},
    CudaError{"no CUDA-capable device is detected", Of::kUndecided},
    CudaError{"system not yet initialized", Of::kUndecided},
    CudaError{"unknown error", Of::kUndecided},
    CudaError{"out of memory", Of::kMemory},
};

}  // namespace

const CudaError* cuda_error_in(std::string_view line) {
  const size_t at = line.find(kCudaErrorPrefix);
  if (at == std::string_view::npos) {
    return nullptr;
  }
  const std::string_view rest = line.substr(at + kCudaErrorPrefix.size());
  const auto* const found =
      std::ranges::find_if(kErrors, [&](const CudaError& one) { return rest.starts_with(one.text); });
  return found == kErrors.end() ? nullptr : found;
}

}  // namespace stalltrace
