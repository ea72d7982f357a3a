// SPDX-License-Identifier: Apache-2.0
// Which calls of collective libraries the native threads of processes are inside of. Reads /proc/PID/mem and, of
// threads that run, stacks which the kernel samples (perf_event_open): nothing is stopped or written. Symbols of files
// that other users own are read by a child process without rights (base/untrusted).
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autopsy/snapshot.h"
#include "base/process/procfs.h"

namespace stalltrace::autopsy {

struct NativeThread {
  pid_t pid = 0;
  pid_t tid = 0;
  bool running = false;
};

struct NativeAnswer {
  bool known = false;            // the stack was read
  std::optional<OpenCall> call;  // nullopt: in none
  std::string problem;           // why it is not known
};

/// One answer per thread. Running threads are sampled for `sample_ns` in all.
std::vector<NativeAnswer> native_calls(const Procfs& procfs, std::span<const NativeThread> threads, int64_t sample_ns);

}  // namespace stalltrace::autopsy
