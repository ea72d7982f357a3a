// SPDX-License-Identifier: Apache-2.0
// A seccomp filter for helper processes: a list of the system calls that they may make.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace stalltrace {

/// A system call that is allowed, with no bit of `refused_bits` in that argument. Only the argument's lower 32 bits are
/// compared: it must be an int of the kernel's.
struct AllowedCall {
  struct Argument {
    unsigned index = 0;
    uint32_t refused_bits = 0;
  };
  long number = 0;
  std::optional<Argument> without = std::nullopt;
};

/// Whether the kernel has such filters.
bool has_system_call_filters();

/// From now on every call that is not listed fails with EPERM. False where the kernel refuses.
bool allow_only(std::span<const AllowedCall> calls);

}  // namespace stalltrace
