// SPDX-License-Identifier: Apache-2.0
#include "plugin/box/old_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "plugin/box/field.h"
#include "plugin/box/file_status.h"
#include "plugin/wire/blackbox.h"

namespace stalltrace::plugin {
namespace {

constexpr uint64_t kShareOfFileSystem = 8;
constexpr int kMaxRemovals = 64;  // per start
constexpr int64_t kNsPerSecond = 1'000'000'000;

struct OldFiles {
  uint64_t bytes = 0;
  int64_t oldest_ns = INT64_MAX;
  char oldest[NAME_MAX + 1] = "";
};

bool is_black_box(const char* name) {
  const char* end = strrchr(name, '.');
  return strncmp(name, ST_BOX_PREFIX, sizeof(ST_BOX_PREFIX) - 1) == 0 && end != nullptr &&
         strcmp(end, ST_BOX_SUFFIX) == 0;
}

/// True for a file of this process made by another copy of the library: opening and closing it would drop its lock.
bool is_ours(const char* name) {
  char prefix[32];
  const int length = snprintf(prefix, sizeof(prefix), ST_BOX_PREFIX "%d-", getpid());
  return strncmp(name, prefix, static_cast<size_t>(length)) == 0;
}

bool writer_lives(int fd) {
  struct flock lock {};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  return fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool is_in_memory(int folder) {
  struct statfs file_system {};
  return fstatfs(folder, &file_system) == 0 && (file_system.f_type == TMPFS_MAGIC || file_system.f_type == RAMFS_MAGIC);
}

/// Whether the process gave no sign of life for long. A file's own times do not show it, since writing to a mapping in
/// memory does not change them.
bool is_too_old(int fd, uint64_t oldest_ns) {
  st_box_header header{};
  if (pread(fd, &header, sizeof(header), 0) != sizeof(header) ||
      memcmp(header.magic, ST_BOX_MAGIC, sizeof(header.magic)) != 0 || header.version != ST_BOX_VERSION) {
    return false;
  }
  const uint64_t last_ns = std::max({header.created_ns, header.heartbeat_ns, header.anchored_ns, header.closed_ns});
  return last_ns != 0 && last_ns < now_ns() && now_ns() - last_ns > oldest_ns;
}

/// `oldest_ns` 0: no age limit.
void consider(int folder, const char* name, uint64_t oldest_ns, OldFiles* found) {
  const int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    return;
  }
  struct stat info {};
  if (read_status(fd, &info) && S_ISREG(info.st_mode) && info.st_uid == geteuid() && !writer_lives(fd) &&
      !(oldest_ns != 0 && is_too_old(fd, oldest_ns) && unlinkat(folder, name, 0) == 0)) {
    found->bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    const int64_t modified_ns = info.st_mtim.tv_sec * kNsPerSecond + info.st_mtim.tv_nsec;
    if (modified_ns < found->oldest_ns) {
      found->oldest_ns = modified_ns;
      snprintf(found->oldest, sizeof(found->oldest), "%s", name);
    }
  }
  close(fd);
}

/// Also removes those that are too old.
OldFiles find_old_files(DIR* folder, uint64_t oldest_ns) {
  OldFiles found;
  rewinddir(folder);
  while (const dirent* entry = readdir(folder)) {
    if (is_black_box(entry->d_name) && !is_ours(entry->d_name)) {
      consider(dirfd(folder), entry->d_name, oldest_ns, &found);
    }
  }
  return found;
}

uint64_t share_of_file_system(int folder) {
  struct statvfs file_system {};
  return fstatvfs(folder, &file_system) == 0 ? file_system.f_blocks * file_system.f_frsize / kShareOfFileSystem
                                             : UINT64_MAX;
}

}  // namespace

void remove_old_files(const char* folder, uint64_t budget_bytes, uint64_t oldest_ns) {
  DIR* open_folder = opendir(folder);
  if (open_folder == nullptr) {
    return;
  }
  budget_bytes = std::min(budget_bytes, share_of_file_system(dirfd(open_folder)));
  oldest_ns = is_in_memory(dirfd(open_folder)) ? oldest_ns : 0;
  for (int removal = 0; removal < kMaxRemovals; ++removal) {
    const OldFiles found = find_old_files(open_folder, oldest_ns);
    if (found.bytes <= budget_bytes || unlinkat(dirfd(open_folder), found.oldest, 0) != 0) {
      break;
    }
  }
  closedir(open_folder);
}

}  // namespace stalltrace::plugin
