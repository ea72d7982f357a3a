// SPDX-License-Identifier: Apache-2.0
// The native frames of other processes' blocked threads, with names. Reads through /proc: nothing is stopped or
// written. What cannot be known for certain is left out (unwinder.h).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/process/procfs.h"
#include "base/python_frames.h"
#include "base/untrusted/function_name_reader.h"
#include "base/untrusted/mounts.h"
#include "stacks/native/file_functions.h"

namespace stalltrace::stacks {

struct NativeStack {
  std::vector<PythonFrame> frames;  // innermost first; all are native
  bool whole = false;               // they reach the thread's first function
  std::string problem;              // why there are none; empty: there are
};

/// The problem of a thread that ran, or runs.
inline constexpr std::string_view kItRan = "it ran while it was read";

/// The file of frames in memory that the process made executable itself.
inline constexpr std::string_view kJitFile = "JIT code";

/// First all threads are read, then names are looked up for all of them. One thread.
class NativeStacks {
 public:
  /// `procfs` must outlive the object. `most_ns`: for all stacks, and as much for all names.
  NativeStacks(const Procfs& procfs, FunctionNameReader::ReadBy read_by, int64_t most_ns);

  /// A thread, and what is known of its wait: frames of any other wait are not read.
  struct Wanted {
    pid_t tid = 0;
    std::optional<int64_t> call;       // the system call that it is blocked in
    std::optional<uint64_t> argument;  // the call's first
    std::optional<std::string> times;  // its schedstat, which changes when it runs
  };
  /// Reads these threads of a process: all of them are blocked or stopped.
  void read(pid_t pid, const std::vector<Wanted>& threads);
  /// In the order in which they were read.
  std::vector<NativeStack> take();

 private:
  struct Frame {
    MappedFile file;       // `inode` is 0: none
    uint64_t address = 0;  // in a file: the offset in it
    std::string name;      // of code without a file
  };
  struct Read {
    pid_t pid = 0;
    std::vector<Frame> frames;
    bool whole = false;
    std::string problem;
  };
  void name_made_code(pid_t pid, size_t first);

  const Procfs& procfs_;
  Mounts mounts_;
  FileFunctions functions_;
  int64_t most_ns_;
  int64_t begun_ns_;
  std::vector<Read> stacks_;
};

}  // namespace stalltrace::stacks
