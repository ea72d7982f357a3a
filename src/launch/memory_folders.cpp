// SPDX-License-Identifier: Apache-2.0
#include "launch/memory_folders.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "blackbox/format/reader.h"

namespace stalltrace::launch {
namespace {

constexpr std::string_view kBeginning = "stalltrace-run-";
/// Eight processes' profiler files use half of it; NCCL's own shared memory needs the rest.
constexpr uint64_t kRoomBytes = 512ULL << 20;
constexpr uint64_t kMostLeftBehindBytes = 1ULL << 30;
constexpr uint64_t kShareLeftBehind = 8;

struct LeftBehind {
  OwnFolder folder;  // locked, so that no other launcher handles it
  int64_t changed_s = 0;
  uint64_t last_sign_ns = 0;  // newest sign of life of its processes: CLOCK_MONOTONIC
  uint64_t bytes = 0;
};

bool is_in_memory(const std::string& path) {
  struct statfs info {};
  return ::statfs(path.c_str(), &info) == 0 && (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

/// Sets the sizes and times; false if a process still writes.
bool measure(LeftBehind& left) {
  bool abandoned = true;
  for_each_name(left.folder.descriptor(), [&](const std::string& name) {
    const auto reader = blackbox::ProfilerFileReader::open(left.folder.path() + "/" + name);
    struct stat info {};
    if ((reader && reader->has_writer()) ||
        ::fstatat(left.folder.descriptor(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      abandoned = false;
      return;
    }
    if (reader) {
      const st_box_header& header = reader->layout();
      left.last_sign_ns = std::max({left.last_sign_ns, header.created_ns, header.heartbeat_ns, header.closed_ns});
    }
    left.bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    left.changed_s = std::max<int64_t>(left.changed_s, info.st_mtim.tv_sec);
  });
  return abandoned;
}

std::vector<LeftBehind> left_behind(const std::string& memory) {
  std::vector<LeftBehind> found;
  for_each_left_behind(memory, kBeginning, [&](OwnFolder folder) {
    LeftBehind left{.folder = std::move(folder)};
    if (measure(left)) {
      found.push_back(std::move(left));
    }
  });
  std::ranges::sort(found, std::greater{}, &LeftBehind::changed_s);
  return found;
}

}  // namespace

Result<OwnFolder> make_memory_folder(const std::string& memory) {
  struct statvfs room {};
  if (!is_in_memory(memory) || ::statvfs(memory.c_str(), &room) != 0) {
    return fail(memory + " is no file system in memory");
  }
  if (const uint64_t left = room.f_bavail * room.f_frsize; left < kRoomBytes) {
    return fail(fmt::format("{} has {} left, {} are wanted", memory, format_size(static_cast<int64_t>(left)),
                            format_size(kRoomBytes)));
  }
  return OwnFolder::make_temporary(std::string(kBeginning), 0700, memory);
}

void report_of_earlier_folders(const std::string& memory, const std::function<void(const std::string&)>& note,
                               uint64_t oldest_ns) {
  struct statvfs room {};
  if (::statvfs(memory.c_str(), &room) != 0) {
    return;
  }
  const uint64_t most = std::min(kMostLeftBehindBytes, room.f_blocks * room.f_frsize / kShareLeftBehind);
  uint64_t bytes = 0;
  std::string folders;
  const auto now_ns = static_cast<uint64_t>(monotonic_now_ns());
  for (const LeftBehind& left : left_behind(memory)) {
    bytes += left.bytes;
    const bool old = left.last_sign_ns != 0 && left.last_sign_ns + oldest_ns < now_ns;
    if (left.bytes == 0 || bytes > most || old) {
      remove_with_contents(left.folder);
    } else {
      folders += (folders.empty() ? "" : ", ") + left.folder.path();
    }
  }
  if (!folders.empty()) {
    note(fmt::format("profiler files of earlier runs are still in {}: import or remove them", folders));
  }
}

}  // namespace stalltrace::launch
