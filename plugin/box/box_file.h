// SPDX-License-Identifier: Apache-2.0
// The profiler file's file: made when NCCL first asks, ended when the last communicator is gone. Called under the
// plugin's lock; system calls are fine here.
#pragma once

#include <cstddef>

#include "plugin/box/box.h"

namespace stalltrace::plugin {

struct BoxOptions {
  const char* folder = "/dev/shm";
  uint64_t limit_bytes = 64ULL << 20;  // of the file
};

/// What went wrong, for one line of NCCL's log. Text lives as long as the library.
struct BoxError {
  const char* what = nullptr;
  int error_number = 0;
};

inline constexpr size_t kPathBytes = 512;

/// Makes the file, all of it reserved, and maps it: a full file system must show here, not as a SIGBUS in NCCL's
/// threads. Its size stays below the limit, a sixteenth of the file system's free space and the process's file size
/// limit. Where this process had one that is closed, as after the library was unloaded, that one goes on. `path`
/// receives the name, also on failure. The caller fills the rest of the header.
bool create_box(const BoxOptions& options, Box* box, char* path, BoxError* error);

/// Says that every communicator has ended, and gives back what the ring has never used.
void close_box(Box& box);

/// Takes up recording again after close_box; false where the space is gone.
bool reopen_box(Box& box);

/// Forgets the mapping. The file stays.
void unmap_box(Box& box);

}  // namespace stalltrace::plugin
