// SPDX-License-Identifier: Apache-2.0
// The threads of a CPython process and their frames, out of its memory. The process goes on in the meantime: what is
// read once may be of two moments, so everything is read until two readings agree, a few times at most. Every pointer,
// count and text is doubted; time and memory are bounded whatever the process's memory holds.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/python_frames.h"
#include "base/result.h"
#include "stacks/memory/memory.h"
#include "stacks/python/find_python.h"

namespace stalltrace::stacks {

struct PythonThread {
  pid_t tid = 0;                    // in the process's pid namespace; 0: not known
  std::optional<bool> holds_gil;    // none: not readable, or it changed hands
  bool collecting = false;          // the interpreter collects garbage, in this thread
  std::vector<PythonFrame> frames;  // innermost first, of deep recursion the innermost and the outermost
  size_t left_out = 0;              // frames between them
  size_t left_out_at = 0;           // so many frames are before the gap
  size_t changing = 0;  // so many of the innermost were different in the last two readings: the thread was running
  std::string problem;  // why frames are missing; empty: none are
};

struct PythonThreads {
  std::vector<PythonThread> threads;
  /// Addresses of the global lock: who waits at a futex there waits for it.
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  std::vector<Range> gils;
  std::string problem;  // why threads may be missing; empty: none are
};

/// Of the process with these threads (in its own pid namespace); `main` is its first one's number. Errors: kCorrupt
/// (never two readings that agree, or no interpreter there), kUnsupported (a version not known).
Result<PythonThreads> read_python_threads(Memory& memory, const PythonProgram& program, std::span<const pid_t> tids,
                                          pid_t main, BoundedMemory::Bounds bounds = {});

}  // namespace stalltrace::stacks
