// SPDX-License-Identifier: Apache-2.0
#include "base/process/descriptors.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stalltrace {
namespace {

/// The kernel's default limit (fs.nr_open).
constexpr rlim_t kMostDescriptors = 1U << 20;

/// Makes the system call directly: the C library has the function since version 2.34.
bool close_range(unsigned first, unsigned last, unsigned flags) {
  return ::syscall(SYS_close_range, first, last, flags) == 0;
}

/// The record of getdents64(2); the name follows.
struct DirectoryEntry {
  uint64_t inode;
  int64_t offset;
  uint16_t length;
  uint8_t type;
};
constexpr size_t kNameOffset = offsetof(DirectoryEntry, type) + 1;

/// The number that is a name in /proc/self/fd; -1 for "." and "..".
int number_of(const char* name) {
  int number = name[0] == '.' ? -1 : 0;
  for (; *name >= '0' && *name <= '9'; ++name) {
    number = number * 10 + (*name - '0');
  }
  return number;
}

/// Lists /proc/self/fd without opendir, which allocates memory. The kernel lists by number, so `visit` may close
/// descriptors without hiding any. The descriptor being read is not visited. False where /proc can't be read.
template <typename Visit>
bool visit_listed(Visit visit) {
  const int folder = ::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) {
    return false;
  }
  alignas(DirectoryEntry) char entries[4096];
  long got = 0;
  while ((got = ::syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
    for (long at = 0; at < got;) {
      DirectoryEntry entry;
      std::memcpy(&entry, entries + at, sizeof entry);
      if (const int fd = number_of(entries + at + kNameOffset); fd >= 0 && fd != folder) {
        visit(fd);
      }
      at += entry.length;
    }
  }
  ::close(folder);
  return got == 0;
}

template <typename Visit>
void visit_descriptors(Visit visit) {
  if (visit_listed(visit)) {
    return;
  }
  // The soft limit may have been lowered since a descriptor above it was opened.
  rlimit limit{};
  const rlim_t end = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : kMostDescriptors;
  for (int fd = 0; fd < static_cast<int>(std::min(end, kMostDescriptors)); ++fd) {
    visit(fd);
  }
}

}  // namespace

void close_from_on_exec(int first) {
  if (close_range(static_cast<unsigned>(first), ~0U, CLOSE_RANGE_CLOEXEC)) {
    return;
  }
  visit_descriptors([first](int fd) {
    if (fd >= first) {
      ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
  });
}

void close_all_but(int kept) {
  const auto number = static_cast<unsigned>(kept);
  if ((kept == 0 || close_range(0, number - 1, 0)) && close_range(number + 1, ~0U, 0)) {
    return;
  }
  visit_descriptors([kept](int fd) {
    if (fd != kept) {
      ::close(fd);
    }
  });
}

}  // namespace stalltrace
