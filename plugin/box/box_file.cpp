// SPDX-License-Identifier: Apache-2.0
#include "plugin/box/box_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "plugin/box/file_status.h"
#include "plugin/box/process.h"
#include "plugin/box/ring.h"
#include "plugin/wire/blackbox.h"

namespace stalltrace::plugin {
namespace {

constexpr uint64_t kCommunicators = 512;
constexpr uint64_t kMinSlots = 1024;
constexpr uint64_t kMaxSlots = 16384;
constexpr uint64_t kMinRing = 4096;  // records: half a megabyte
constexpr uint64_t kShareOfFreeSpace = 16;
constexpr uint64_t kSharedMemoryOfNccl = 256ULL << 20;
constexpr int kInterrupts = 8;

struct Layout {
  uint64_t communicator_offset = sizeof(st_box_header);
  uint64_t slot_offset = communicator_offset + kCommunicators * sizeof(Communicator);
  uint64_t slot_capacity = 0;
  uint64_t ring_offset = 0;
  uint64_t ring_capacity = 0;
  uint64_t file_bytes = 0;
};

Layout layout_of(uint64_t ring_capacity) {
  Layout layout;
  layout.ring_capacity = ring_capacity;
  layout.slot_capacity = std::clamp(ring_capacity / 16, kMinSlots, kMaxSlots);
  layout.ring_offset = layout.slot_offset + layout.slot_capacity * sizeof(Event);
  layout.file_bytes = layout.ring_offset + ring_capacity * sizeof(Event);
  return layout;
}

/// The largest layout that fits; ring_capacity 0 if none does.
Layout largest_layout(uint64_t limit_bytes) {
  for (uint64_t capacity = std::bit_floor(limit_bytes / sizeof(Event)); capacity >= kMinRing; capacity /= 2) {
    if (const Layout layout = layout_of(capacity); layout.file_bytes <= limit_bytes) {
      return layout;
    }
  }
  return {};
}

bool is_in_shared_memory(int fd) {
  struct stat file {};
  struct stat shared {};
  return read_status(fd, &file) && read_status(ST_BOX_FOLDER, &shared) && file.st_dev == shared.st_dev;
}

uint64_t space_for_us(int fd, uint64_t limit_bytes) {
  struct statvfs file_system {};
  if (fstatvfs(fd, &file_system) == 0) {
    limit_bytes =
        std::min(limit_bytes, room_for_a_box(file_system.f_bavail * file_system.f_frsize, is_in_shared_memory(fd)));
  }
  rlimit file_size{};
  if (getrlimit(RLIMIT_FSIZE, &file_size) == 0) {
    limit_bytes = std::min(limit_bytes, static_cast<uint64_t>(file_size.rlim_cur));  // beyond it, a signal kills
  }
  return limit_bytes;
}

int reserve(int fd, uint64_t offset, uint64_t bytes) {
  int failed = EINTR;
  for (int attempt = 0; attempt < kInterrupts && failed == EINTR; ++attempt) {
    failed = posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  }
  return failed;
}

/// The n-th name of this process's files; false if it is too long.
bool name_file(const char* folder, int number, char* path) {
  char suffix[16] = "";
  if (number > 0) {
    snprintf(suffix, sizeof(suffix), "-%d", number);
  }
  const int length = snprintf(path, kPathBytes, "%s/" ST_BOX_PREFIX "%d-%" PRIu64 "%s" ST_BOX_SUFFIX, folder, getpid(),
                              process_start_ticks(), suffix);
  return length >= 0 && static_cast<size_t>(length) < kPathBytes;
}

/// Locks the file until the process ends or closes it; a fork's child does not inherit the lock. False if another
/// process holds it.
bool lock_file(int fd) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  return fcntl(fd, F_SETLK, &lock) == 0;
}

void fill_header(st_box_header& header, const Layout& layout) {
  header.byte_order = ST_BOX_BYTE_ORDER;
  header.header_bytes = sizeof(st_box_header);
  header.communicator_bytes = sizeof(Communicator);
  header.event_bytes = sizeof(Event);
  header.file_bytes = layout.file_bytes;
  header.communicator_offset = layout.communicator_offset;
  header.communicator_capacity = kCommunicators;
  header.slot_offset = layout.slot_offset;
  header.slot_capacity = layout.slot_capacity;
  header.ring_offset = layout.ring_offset;
  header.ring_capacity = layout.ring_capacity;
  describe_process(header);
}

int map_box(int fd, const Layout& layout, Box* box) {
  void* mapped = mmap(nullptr, layout.file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (mapped == MAP_FAILED) {
    return errno;
  }
  char* base = static_cast<char*>(mapped);
  *box = {};
  box->header = reinterpret_cast<st_box_header*>(base);
  box->communicators = reinterpret_cast<Communicator*>(base + layout.communicator_offset);
  box->slots = reinterpret_cast<Event*>(base + layout.slot_offset);
  box->ring = reinterpret_cast<Event*>(base + layout.ring_offset);
  box->slot_mask = layout.slot_capacity - 1;
  box->ring_mask = layout.ring_capacity - 1;
  box->fd = fd;
  return 0;
}

/// Marks the file as being written, as the last step: until then readers ignore it.
void begin_recording(Box& box) {
  st_box_header& header = *box.header;
  box.tag = header.process_tag;
  header.closed_ns = 0;
  anchor_clocks(box);
  header.version = ST_BOX_VERSION;
  store<uint32_t>(header.state, ST_BOX_RECORDING, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(header.magic, ST_BOX_MAGIC, sizeof(header.magic));
}

/// Fills a new file; returns 0 or an error number.
int fill_new_file(int fd, uint64_t limit_bytes, Box* box) {
  const Layout layout = largest_layout(space_for_us(fd, limit_bytes));
  if (layout.ring_capacity == 0) {
    return ENOSPC;
  }
  int failed = reserve(fd, 0, layout.file_bytes);
  failed = failed != 0 ? failed : map_box(fd, layout, box);
  if (failed == 0) {
    fill_header(*box->header, layout);
    lock_file(fd);
    begin_recording(*box);
  }
  return failed;
}

/// The layout of a file that this process closed when the library was unloaded; ring_capacity 0 if it is any other
/// file.
Layout layout_of_ours(int fd) {
  struct stat info {};
  st_box_header header{};
  if (!read_status(fd, &info) || !S_ISREG(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 077) != 0 ||
      pread(fd, &header, sizeof(header), 0) != sizeof(header)) {
    return {};
  }
  st_box_header now{};
  describe_process(now);
  const bool ours = std::memcmp(header.magic, ST_BOX_MAGIC, sizeof(header.magic)) == 0 &&
                    header.version == ST_BOX_VERSION && header.state == ST_BOX_CLOSED && header.pid == now.pid &&
                    header.process_start_ticks == now.process_start_ticks && header.pid_namespace == now.pid_namespace;
  if (!ours || !std::has_single_bit(header.ring_capacity) || header.ring_capacity > UINT32_MAX) {
    return {};
  }
  const Layout layout = layout_of(header.ring_capacity);
  const bool whole = header.slot_capacity == layout.slot_capacity && header.ring_offset == layout.ring_offset &&
                     header.communicator_capacity == kCommunicators &&
                     static_cast<uint64_t>(info.st_size) == layout.file_bytes;
  return whole ? layout : Layout{};
}

/// Continues writing to the file; false if it is not ours or its space is gone.
bool resume_file(const char* path, Box* box) {
  const int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    return false;
  }
  const Layout layout = layout_of_ours(fd);
  if (layout.ring_capacity == 0 || !lock_file(fd) || reserve(fd, 0, layout.file_bytes) != 0 ||
      map_box(fd, layout, box) != 0) {
    close(fd);
    return false;
  }
  begin_recording(*box);
  return true;
}

char* at(const Box& box, uint64_t offset) { return reinterpret_cast<char*>(box.header) + offset; }

/// From `offset` on. A thread that was in an event when the last communicator ended may still write there. In the
/// file's pages that would be a SIGBUS once the file system is full: it writes into memory that no process owns.
void give_back(Box& box, uint64_t offset) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t begin = (offset + page - 1) / page * page;
  const uint64_t end = box.header->file_bytes;
  if (begin < end && mmap(at(box, begin), end - begin, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED) {
    box.given_back = begin;
    fallocate(box.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
              static_cast<off_t>(end - begin));
  }
}

/// Its room is reserved.
bool take_again(Box& box) {
  const uint64_t begin = box.given_back;
  if (begin != 0 && mmap(at(box, begin), box.header->file_bytes - begin, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_POPULATE | MAP_FIXED, box.fd, static_cast<off_t>(begin)) == MAP_FAILED) {
    return false;
  }
  box.given_back = 0;
  return true;
}

}  // namespace

uint64_t room_for_a_box(uint64_t free_bytes, bool in_shared_memory) {
  const uint64_t kept = in_shared_memory ? kSharedMemoryOfNccl : 0;
  return (free_bytes - std::min(free_bytes, kept)) / kShareOfFreeSpace;
}

bool file_system_suits(uint64_t type) {
  switch (type) {
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
    case EXT4_SUPER_MAGIC:  // ext2 and ext3 too
    case XFS_SUPER_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:  // of a container; what lies below it can't be seen
      return true;
    default:
      return false;
  }
}

bool create_box(const BoxOptions& options, Box* box, char* path, BoxError* error) {
  struct statfs file_system {};
  if (statfs(options.folder, &file_system) == 0 && !file_system_suits(static_cast<uint64_t>(file_system.f_type))) {
    snprintf(path, kPathBytes, "%s", options.folder);
    *error = {"neither tmpfs, ext4 nor xfs:", EOPNOTSUPP};
    return false;
  }
  for (int number = 0; number < ST_BOX_NAMES; ++number) {
    if (!name_file(options.folder, number, path)) {
      *error = {"the folder's name is too long", ENAMETOOLONG};
      return false;
    }
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) {
      if (resume_file(path, box)) {
        return true;
      }
      continue;  // another process's
    }
    const int failed = fd < 0 ? errno : fill_new_file(fd, options.limit_bytes, box);
    if (failed == 0) {
      return true;
    }
    *error = {fd < 0 ? "cannot create" : "cannot reserve room for", failed};
    if (fd >= 0) {
      unlink(path);
      close(fd);
    }
    return false;
  }
  *error = {"every name is taken, up to", EEXIST};
  return false;
}

void close_box(Box& box) {
  st_box_header& header = *box.header;
  anchor_clocks(box);
  header.closed_ns = now_ns();
  store<uint32_t>(header.state, ST_BOX_CLOSED, std::memory_order_release);
  const uint64_t head = load(header.ring_head);
  if (head < header.ring_capacity) {
    give_back(box, header.ring_offset + head * sizeof(Event));
  }
}

bool reopen_box(Box& box) {
  st_box_header& header = *box.header;
  if (reserve(box.fd, header.ring_offset, header.file_bytes - header.ring_offset) != 0 || !take_again(box)) {
    return false;
  }
  begin_recording(box);
  return true;
}

void unmap_box(Box& box) {
  if (box.header != nullptr) {
    munmap(box.header, box.header->file_bytes);
    close(box.fd);
  }
  box = {};
}

}  // namespace stalltrace::plugin
