// SPDX-License-Identifier: Apache-2.0
// pread that continues after interruptions: a file on NFS, Lustre or FUSE may be waited for.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace stalltrace {

/// As pread(2), but goes on after EINTR: the number of bytes read, fewer at the end of the file; -1 with errno.
inline ssize_t read_at(int fd, void* into, size_t bytes, off_t offset) {
  ssize_t got = 0;
  do {
    got = ::pread(fd, into, bytes, offset);
  } while (got < 0 && errno == EINTR);
  return got;
}

}  // namespace stalltrace
