// SPDX-License-Identifier: Apache-2.0
// Which call a native thread is inside of, from the bytes of its stack. The stack is scanned for return addresses,
// which needs neither frame pointers nor unwind tables. What a finished call left behind lies further out than the
// program's own innermost frame: the scan ends there. Pure, except for the functions that it is given.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/elf/code_kind.h"
#include "stacks/native/blocked_stack.h"

namespace stalltrace::autopsy {

/// An executable mapping of a process.
struct CodeRange {
  uint64_t start = 0;
  uint64_t end = 0;
  CodeKind kind = CodeKind::kProgram;
  size_t file = 0;  // the caller's number for it
};

struct CodeAddress {
  uint64_t address = 0;  // within the calling instruction
  size_t range = 0;      // index of its CodeRange
};

struct ScannedStack {
  std::vector<CodeAddress> code;                // innermost first, up to the program's innermost frame
  CodeKind innermost = CodeKind::kTransparent;  // of the first that is not transparent; kTransparent: none was found
};

/// True if a call instruction ends at this address of the process.
using EndsCall = std::function<bool(uint64_t address)>;

/// `ranges` are sorted by address and do not overlap.
ScannedStack scan_stack(const stacks::StackContent& stack, std::span<const CodeRange> ranges,
                        const EndsCall& ends_call);

}  // namespace stalltrace::autopsy
