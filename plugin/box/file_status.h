// SPDX-License-Identifier: Apache-2.0
// stat and fstat by system calls: before glibc 2.33 these were no functions of the library, so a reference to them
// needs a newer one. Any thread; errno is set on failure.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace stalltrace::plugin {

// The kernel's structure and glibc's are one on 64-bit machines: on x86-64 and on arm64 these members lie here in both.
static_assert(offsetof(struct stat, st_ino) == 8 && offsetof(struct stat, st_size) == 48 &&
              offsetof(struct stat, st_blocks) == 64 && offsetof(struct stat, st_mtim) == 88);

/// False on failure.
inline bool read_status(int fd, struct stat* status) { return syscall(SYS_fstat, fd, status) == 0; }

/// The same for a path; links are followed.
inline bool read_status(const char* path, struct stat* status) {
  return syscall(SYS_newfstatat, AT_FDCWD, path, status, 0) == 0;
}

}  // namespace stalltrace::plugin
