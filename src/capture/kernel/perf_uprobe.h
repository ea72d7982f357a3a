// SPDX-License-Identifier: Apache-2.0
// User probes as perf events, for kernels without uprobe-multi links (before 6.6): one file descriptor per probe. Needs
// CAP_SYS_ADMIN on most kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace::capture {

struct UprobeLocation {
  uint64_t offset = 0;            // in the file
  uint64_t semaphore_offset = 0;  // offset of a 16-bit counter that the kernel raises while the probe exists; 0: none
  bool at_return = false;
};

/// Runs `program_fd` at an offset of `path`, in every process, until the descriptor is closed. The cookie is set where
/// the kernel has cookies (Linux 5.15).
Result<UniqueFd> open_perf_uprobe(int program_fd, const std::string& path, const UprobeLocation& location,
                                  std::optional<uint64_t> cookie);

/// For kernels without cookies: loads a program that stores `cookie` in the per-CPU array `cookie_map` and tail-calls
/// slot `slot` of the program array `programs_map`.
Result<UniqueFd> load_cookie_program(int cookie_map, int programs_map, uint32_t slot, uint64_t cookie);

}  // namespace stalltrace::capture
