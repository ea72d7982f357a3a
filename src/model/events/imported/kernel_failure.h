// SPDX-License-Identifier: Apache-2.0
// What drivers other than NVIDIA's, and the kernel itself, print when something fails, as the text of a row of
// kernel_message (kind other). The words are those of Linux: drivers/gpu/drm/amd/amdgpu, drivers/net/ethernet/mellanox,
// drivers/infiniband/hw/mlx5, kernel/panic.c.
#pragma once

#include <cstdint>
#include <string_view>

namespace stalltrace {

struct KernelFailure {
  enum class Of : uint8_t { kGpu, kAdapter, kHost };
  enum class Severity : uint8_t {
    kHost,      // nothing runs there any more
    kDevice,    // the device or its firmware
    kProgram,   // the device, the driver or the program
    kLinkLost,  // also at a restart, and on ports that have no cable
  };

  std::string_view driver;   // what the line has before the words
  std::string_view words;    // by which it is recognised
  std::string_view name;     // "a reset of the GPU"
  std::string_view meaning;  // "its work did not end in time"
  Of of = Of::kHost;
  Severity severity = Severity::kHost;
};

/// Null: the text is none of these.
const KernelFailure* kernel_failure_in(std::string_view text);

}  // namespace stalltrace
