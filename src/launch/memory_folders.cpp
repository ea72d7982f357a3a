// SPDX-License-Identifier: Apache-2.0
#include "launch/memory_folders.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "blackbox/format/reader.h"

namespace stalltrace::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBeginning = "stalltrace-run-";
/// Eight processes' profiler files take half of it; NCCL's own shared memory needs the rest.
constexpr uint64_t kRoomBytes = 512ULL << 20;
constexpr uint64_t kMostLeftBehindBytes = 1ULL << 30;
constexpr uint64_t kShareLeftBehind = 8;

struct LeftBehind {
  std::string path;
  int64_t changed_s = 0;
  uint64_t bytes = 0;
  UniqueFd lock;  // so that no other launcher sees to it too
};

/// The process that holds the lock is its launcher, or takes care of it.
UniqueFd lock_folder(const std::string& path) {
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return folder && ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0 ? std::move(folder) : UniqueFd();
}

bool is_in_memory(const std::string& path) {
  struct statfs info {};
  return ::statfs(path.c_str(), &info) == 0 && (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

/// Fills in what lies there; false where a process still writes.
bool weigh(LeftBehind& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder.path, error), end; !error && entry != end; entry.increment(error)) {
    const auto reader = blackbox::ProfilerFileReader::open(entry->path().string());
    struct stat info {};
    if ((reader && reader->has_writer()) || ::lstat(entry->path().c_str(), &info) != 0) {
      return false;
    }
    folder.bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    folder.changed_s = std::max<int64_t>(folder.changed_s, info.st_mtim.tv_sec);
  }
  return !error;
}

std::vector<LeftBehind> left_behind(const std::string& memory) {
  std::vector<LeftBehind> found;
  std::error_code error;
  for (fs::directory_iterator entry(memory, error), end; !error && entry != end; entry.increment(error)) {
    LeftBehind folder{.path = entry->path().string()};
    struct stat info {};
    if (!entry->path().filename().string().starts_with(kBeginning) || ::lstat(folder.path.c_str(), &info) != 0 ||
        !S_ISDIR(info.st_mode) || info.st_uid != ::geteuid()) {
      continue;
    }
    folder.lock = lock_folder(folder.path);
    if (folder.lock && weigh(folder) && folder.bytes > 0) {
      found.push_back(std::move(folder));
    }
  }
  std::ranges::sort(found, std::greater{}, &LeftBehind::changed_s);
  return found;
}

void remove_folder(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace

Result<MemoryFolder> make_memory_folder(const std::string& memory) {
  struct statvfs room {};
  if (!is_in_memory(memory) || ::statvfs(memory.c_str(), &room) != 0) {
    return fail(memory + " is no file system in memory");
  }
  if (const uint64_t left = room.f_bavail * room.f_frsize; left < kRoomBytes) {
    return fail(fmt::format("{} has {} left, {} are wanted", memory, format_size(static_cast<int64_t>(left)),
                            format_size(kRoomBytes)));
  }
  std::string path = fmt::format("{}/{}XXXXXX", memory, kBeginning);
  if (::mkdtemp(path.data()) == nullptr) {
    return fail_errno("create a folder in " + memory, errno);
  }
  UniqueFd lock = lock_folder(path);
  return MemoryFolder{std::move(path), std::move(lock)};
}

void report_of_earlier_folders(const std::string& memory, const std::function<void(const std::string&)>& note) {
  struct statvfs room {};
  if (::statvfs(memory.c_str(), &room) != 0) {
    return;
  }
  const uint64_t most = std::min(kMostLeftBehindBytes, room.f_blocks * room.f_frsize / kShareLeftBehind);
  uint64_t bytes = 0;
  std::string places;
  for (const LeftBehind& folder : left_behind(memory)) {
    bytes += folder.bytes;
    if (bytes > most) {
      remove_folder(folder.path);
    } else {
      places += (places.empty() ? "" : ", ") + folder.path;
    }
  }
  if (!places.empty()) {
    note(fmt::format("profiler files of earlier runs are still in {}: import or remove them", places));
  }
}

}  // namespace stalltrace::launch
