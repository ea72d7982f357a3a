// SPDX-License-Identifier: Apache-2.0
// The lifecycle of the profiler file: made when NCCL first calls, ended with the last communicator. Called under the
// plugin's lock; system calls are allowed.
#pragma once

#include <cstddef>

#include "plugin/box/box.h"

namespace stalltrace::plugin {

struct BoxOptions {
  const char* folder = "/dev/shm";
  uint64_t limit_bytes = 64ULL << 20;  // size limit of the file
};

/// An error, for one line of NCCL's log. The text lives as long as the library.
struct BoxError {
  const char* what = nullptr;
  int error_number = 0;
};

inline constexpr size_t kPathBytes = 512;

/// Makes the file, reserves all of its space, and maps it: a full file system must show here, not as a SIGBUS in NCCL's
/// threads. Its size stays below the limit, a sixteenth of the file system's free space and the process's file size
/// limit. A closed file of this process is reused, as after an unload of the library. `path` receives the name, also on
/// failure. The caller fills the rest of the header.
bool create_box(const BoxOptions& options, Box* box, char* path, BoxError* error);

/// Marks that every communicator has ended, and frees the unused part of the ring.
void close_box(Box& box);

/// Resumes recording after close_box; false if the space is gone.
bool reopen_box(Box& box);

/// Unmaps the file, which stays.
void unmap_box(Box& box);

}  // namespace stalltrace::plugin
