// SPDX-License-Identifier: Apache-2.0
// Registers and stack of another process's thread that is blocked or stopped, from /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/process/procfs.h"
#include "stacks/memory/memory.h"

namespace stalltrace::stacks {

/// The stack pointer and the code address that end a line of /proc/PID/task/TID/syscall; nullopt for "running".
struct UserRegisters {
  uint64_t sp = 0;
  uint64_t ip = 0;
};
std::optional<UserRegisters> parse_registers(std::string_view syscall_line);

/// A thread's innermost code address, and the 64-bit numbers on its stack, innermost first.
struct StackContent {
  uint64_t ip = 0;
  std::vector<uint64_t> words;
};

/// The stack of a thread that is blocked or stopped; nullopt if it runs, or can't be read.
std::optional<StackContent> blocked_stack(const Procfs& procfs, Memory& memory, pid_t pid, pid_t tid);

/// Whether a call instruction ends where these bytes of code end (at least kCallBytes of them).
inline constexpr size_t kCallBytes = 8;
bool is_call(std::span<const uint8_t> before);

}  // namespace stalltrace::stacks
