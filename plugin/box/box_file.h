// SPDX-License-Identifier: Apache-2.0
// The lifecycle of the profiler file: made when NCCL first calls, ended with the last communicator. Called under the
// plugin's lock; system calls are allowed.
#pragma once

#include <cstddef>

#include "plugin/box/box.h"

namespace stalltrace::plugin {

struct BoxOptions {
  const char* folder = ST_BOX_FOLDER;
  uint64_t limit_bytes = 64ULL << 20;  // size limit of the file
};

/// An error, for one line of NCCL's log. The text lives as long as the library.
struct BoxError {
  const char* what = nullptr;
  int error_number = 0;
};

inline constexpr size_t kPathBytes = 512;

/// Makes the file, reserves all of its space, and maps it: a full file system must show here, not as a SIGBUS in NCCL's
/// threads. Its size stays below the limit, room_for_a_box(), and the process's file size limit. On a file system where
/// writing to memory may wait for a server, or fail (file_system_suits), there is none. A closed file of this process
/// is reused, as after an unload of the library. `path` receives the name, also on failure. The caller fills the rest
/// of the header.
bool create_box(const BoxOptions& options, Box* box, char* path, BoxError* error);

/// How large a file may be: a sixteenth of the file system's free space. NCCL needs shared memory of its own, and fails
/// without it: there (`in_shared_memory`) 256 MiB are not counted as free.
uint64_t room_for_a_box(uint64_t free_bytes, bool in_shared_memory);

/// By the type that statfs(2) gives: file systems of this host that keep what is reserved. A network file system lets a
/// thread wait for its server; one that copies on write (btrfs, ZFS) has no room for a write once the disk is full.
bool file_system_suits(uint64_t type);

/// Marks that every communicator has ended, and frees the unused part of the ring. A thread that is late may still
/// write there: the memory stays, the file's room does not.
void close_box(Box& box);

/// Resumes recording after close_box; false if the space is gone.
bool reopen_box(Box& box);

/// Unmaps the file, which stays.
void unmap_box(Box& box);

}  // namespace stalltrace::plugin
