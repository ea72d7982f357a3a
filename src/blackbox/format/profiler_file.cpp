// SPDX-License-Identifier: Apache-2.0
#include "blackbox/format/profiler_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/file.h"

namespace stalltrace::blackbox {
namespace {

constexpr uint64_t kMostFileBytes = 4ULL << 30;  // the plugin's own limit is far below
constexpr uint64_t kMostSlots = ST_BOX_ID_SLOT_MASK + 1;
constexpr uint64_t kMostCommunicators = 4096;  // the plugin keeps 512

std::unexpected<Error> corrupt(const std::string& path, const std::string& why) {
  return fail(fmt::format("{}: {}", path, why), "give a file that the profiler plugin wrote, copied whole",
              ErrorKind::kCorrupt);
}

/// True when `count` entries from `offset` lie in [begin, end).
bool fits(uint64_t offset, uint64_t count, uint64_t entry_bytes, uint64_t begin, uint64_t end) {
  return offset >= begin && offset <= end && count <= (end - offset) / entry_bytes;
}

}  // namespace

Result<ProfilerFile> ProfilerFile::open(const std::string& path) {
  // Without O_NONBLOCK, open() of a pipe would wait for its writer.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) {
    const int error = errno;
    return fail_errno(path, error, error == EACCES ? "a profiler file is readable by its job's user and by root" : "");
  }
  return adopt(std::move(fd), path);
}

Result<ProfilerFile> ProfilerFile::adopt(UniqueFd fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    return fail_errno(path, errno);
  }
  if (!S_ISREG(status.st_mode)) {
    return corrupt(path, "not a plain file, no profiler file");
  }
  ProfilerFile file(path, std::move(fd));
  file.file_bytes_ = static_cast<uint64_t>(status.st_size);
  file.owner_ = status.st_uid;
  if (file.file_bytes_ < sizeof(st_box_header)) {
    return corrupt(path, fmt::format("{} bytes are too few for a profiler file", file.file_bytes_));
  }
  ST_TRY(file.copy<st_box_header>(0, 0, std::span(&file.layout_, 1)));
  ST_TRY(file.check());
  return file;
}

Status ProfilerFile::check() const {
  const st_box_header& h = layout_;
  if (std::memcmp(h.magic, ST_BOX_MAGIC, sizeof h.magic) != 0) {
    return corrupt(path_, "not a profiler file");
  }
  if (h.byte_order != ST_BOX_BYTE_ORDER) {
    return corrupt(path_, "a profiler file of a machine with another byte order");
  }
  if (h.version != ST_BOX_VERSION) {
    return fail(fmt::format("{}: a profiler file of version {}; this program reads version {}", path_, h.version,
                            ST_BOX_VERSION),
                "read it with the stalltrace that its plugin came with", ErrorKind::kUnsupported);
  }
  if (h.header_bytes != sizeof(st_box_header) || h.communicator_bytes != sizeof(st_box_communicator) ||
      h.event_bytes != sizeof(st_box_event)) {
    return corrupt(path_, "a profiler file whose entries have other sizes than its version has");
  }
  if (h.file_bytes > kMostFileBytes || h.communicator_capacity > kMostCommunicators || h.slot_capacity > kMostSlots ||
      !std::has_single_bit(h.ring_capacity)) {
    return corrupt(path_, "a profiler file whose header claims impossible sizes");
  }
  const uint64_t communicators_end = h.communicator_offset + h.communicator_capacity * sizeof(st_box_communicator);
  const uint64_t slots_end = h.slot_offset + h.slot_capacity * sizeof(st_box_event);
  if (!fits(h.communicator_offset, h.communicator_capacity, sizeof(st_box_communicator), sizeof h, h.file_bytes) ||
      !fits(h.slot_offset, h.slot_capacity, sizeof(st_box_event), communicators_end, h.file_bytes) ||
      !fits(h.ring_offset, h.ring_capacity, sizeof(st_box_event), slots_end, h.file_bytes)) {
    return corrupt(path_, "a profiler file whose parts overlap or lie outside of it");
  }
  if (h.file_bytes > file_bytes_) {
    return corrupt(path_, fmt::format("cut short: {} of {} bytes are there", file_bytes_, h.file_bytes));
  }
  return {};
}

/// proc(5), /proc/PID/stat: state is the first field after the name, flags the seventh.
bool ProfilerFile::is_ending(pid_t pid) {
  constexpr unsigned kExiting = 0x4;  // PF_EXITING (include/linux/sched.h)
  const std::string text = pid > 0 ? read_file(fmt::format("/proc/{}/stat", pid)).value_or("") : "";
  const size_t name_end = text.rfind(')');
  char state = 0;
  unsigned flags = 0;
  return name_end != std::string::npos &&
         std::sscanf(text.c_str() + name_end + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) == 2 &&
         (state == 'Z' || state == 'X' || (flags & kExiting) != 0);
}

Result<st_box_header> ProfilerFile::header() const {
  st_box_header now;
  ST_TRY(copy<st_box_header>(0, 0, std::span(&now, 1)));
  return now;
}

std::optional<pid_t> ProfilerFile::writer() const {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = 0;
  lock.l_len = 1;
  const bool held = ::fcntl(fd_.get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && !is_ending(lock.l_pid);
  return held ? std::optional(lock.l_pid) : std::nullopt;
}

Status ProfilerFile::copy_bytes(uint64_t offset, std::span<std::byte> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(fd_.get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return fail_errno(path_, errno);
    }
    if (got == 0) {
      return corrupt(path_, "became shorter while it was read");
    }
    done += static_cast<size_t>(got);
  }
  return {};
}

}  // namespace stalltrace::blackbox
