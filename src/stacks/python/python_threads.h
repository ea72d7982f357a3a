// SPDX-License-Identifier: Apache-2.0
// The threads of a CPython process and their frames, from its memory. The process is not stopped, so one reading may
// mix two moments: everything is read until two readings agree, a few times at most. No pointer, count or text is
// trusted; time and memory are bounded whatever the process's memory holds.
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
  pid_t tid = 0;                    // in the process's pid namespace; 0 unknown
  std::optional<bool> holds_gil;    // nullopt: not readable, or it changed hands
  bool collecting = false;          // a garbage collection runs in this thread
  std::vector<PythonFrame> frames;  // innermost first; for deep recursion only the innermost and the outermost
  size_t left_out = 0;              // number of frames between them
  size_t left_out_at = 0;           // number of frames before the gap
  size_t changing = 0;  // number of innermost frames that differed in the last two readings: the thread was running
  std::string problem;  // why frames are missing; empty: all are there
};

struct PythonThreads {
  std::vector<PythonThread> threads;
  /// Addresses of the global lock: a thread that waits at a futex in this range waits for the lock.
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  std::vector<Range> gils;
  std::string problem;  // why threads may be missing; empty: all are there
};

/// Reads the process with these threads (numbers in its own pid namespace); `main` is the number of its first thread.
/// Errors: kCorrupt (no two readings agreed, or no interpreter there), kUnsupported (unknown version).
Result<PythonThreads> read_python_threads(Memory& memory, const PythonProgram& program, std::span<const pid_t> tids,
                                          pid_t main, BoundedMemory::Bounds bounds = {});

}  // namespace stalltrace::stacks
