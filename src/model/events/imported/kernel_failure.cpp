// SPDX-License-Identifier: Apache-2.0
#include "model/events/imported/kernel_failure.h"

#include <algorithm>
#include <array>

namespace stalltrace {
namespace {

using Of = KernelFailure::Of;
using Severity = KernelFailure::Severity;

constexpr std::string_view kFirmware = "the adapter's firmware failed, or does not answer the driver";
constexpr std::string_view kLink = "a port lost its link";

constexpr std::array kFailures{
    KernelFailure{"", "Kernel panic - not syncing", "a kernel panic", "the host stopped", Of::kHost, Severity::kHost},
    KernelFailure{"amdgpu", "uncorrectable hardware errors detected", "an uncorrectable error",
                  "memory or another part of the GPU is broken", Of::kGpu, Severity::kDevice},
    KernelFailure{"amdgpu", "GPU reset begin!", "a reset by the driver", "its work did not end, or it failed", Of::kGpu,
                  Severity::kProgram},
    KernelFailure{"amdgpu", " timeout, signaled seq=", "a time-out of a ring", "work on the GPU did not end in time",
                  Of::kGpu, Severity::kProgram},
    KernelFailure{"mlx5_core ", "Fatal error ", "a fatal error", kFirmware, Of::kAdapter, Severity::kDevice},
    KernelFailure{"mlx5_core ", "firmware internal error", "a firmware error", kFirmware, Of::kAdapter,
                  Severity::kDevice},
    KernelFailure{"mlx5_core ", "device's health compromised", "a firmware error", kFirmware, Of::kAdapter,
                  Severity::kDevice},
    KernelFailure{"mlx5_core ", " timeout. Will cause a leak of a command resource", "a command time-out", kFirmware,
                  Of::kAdapter, Severity::kDevice},
    KernelFailure{"mlx5_core ", "Port module event[error]", "an error of a cable or module", kLink, Of::kAdapter,
                  Severity::kLinkLost},
    KernelFailure{"mlx5_core ", "Cable unplugged", "an unplugged cable", kLink, Of::kAdapter, Severity::kLinkLost},
    KernelFailure{"mlx5_core ", "Link down", "a lost link", kLink, Of::kAdapter, Severity::kLinkLost},
    KernelFailure{"mlx5_core ", "Link DOWN", "a lost link", kLink, Of::kAdapter, Severity::kLinkLost},
    KernelFailure{"infiniband mlx5_", "Link DOWN", "a lost link", kLink, Of::kAdapter, Severity::kLinkLost},
};

}  // namespace

const KernelFailure* kernel_failure_in(std::string_view text) {
  const auto* const found = std::ranges::find_if(kFailures, [&](const KernelFailure& one) {
    const size_t driver = text.find(one.driver);
    return driver != std::string_view::npos && text.find(one.words, driver) != std::string_view::npos;
  });
  return found == kFailures.end() ? nullptr : found;
}

}  // namespace stalltrace
