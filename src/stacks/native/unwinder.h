// SPDX-License-Identifier: Apache-2.0
// The callers of the function that a blocked thread is in. An address is reported only where the code's own unwind
// tables, or the instructions that follow the call, lead to it: the walk ends at the first frame for which they do not,
// since nothing is known of registers but the stack pointer and the instruction pointer.
#pragma once

#include <cstdint>
#include <vector>

#include "stacks/memory/memory.h"
#include "stacks/native/blocked_stack.h"
#include "stacks/native/code_map.h"
#include "stacks/native/unwind_rules.h"

namespace stalltrace::stacks {

struct CodeAddress {
  uint64_t address = 0;  // of a caller: within its call
  const CodeRegion* region = nullptr;
};

struct Unwound {
  std::vector<CodeAddress> frames;  // innermost first; empty: the thread is in no code that is mapped
  bool whole = false;               // the last is the thread's first function
};

/// Frames of one stack at most.
inline constexpr size_t kMostNativeFrames = 64;

/// `stack` reads the thread's stack, `code` the process's code and tables. The thread must not run in between.
Unwound unwind(const UserRegisters& registers, const CodeMap& map, BoundedMemory& stack, BoundedMemory& code,
               UnwindTables& tables);

}  // namespace stalltrace::stacks
