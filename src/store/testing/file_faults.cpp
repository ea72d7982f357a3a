// SPDX-License-Identifier: Apache-2.0
#include "store/testing/file_faults.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <string_view>

namespace stalltrace::store {
namespace {

struct Watch {
  std::string folder;
  FileAction action = FileAction::kRead;
  int64_t left = 0;  // actions until the one that fails
  int error = 0;
  bool for_ever = false;
  bool happened = false;
  bool keeps_journal = false;
  std::vector<FileJournal::Entry> journal;
};

std::mutex mutex;
std::atomic<bool> is_watching = false;
Watch watch;

std::string path_of(int fd) {
  char path[PATH_MAX];
  const ssize_t size = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), path, sizeof path);
  return {path, size > 0 ? static_cast<size_t>(size) : 0};
}

/// Relative to the watched folder; empty: it is not in there.
std::string watched_name(int fd) {
  const std::string name = path_of(fd);
  return name.starts_with(watch.folder + "/") ? name.substr(watch.folder.size() + 1) : "";
}

enum class Outcome { kUnwatched, kCounted, kFailed, kShort };

/// Counts one action, and notes it once it may be done.
template <typename MakeEntry>
Outcome act(FileAction action, int fd, const MakeEntry& make_entry) {
  if (!is_watching.load(std::memory_order_relaxed)) {
    return Outcome::kUnwatched;
  }
  const int error_before = errno;
  const std::scoped_lock lock(mutex);
  std::string name = watched_name(fd);
  errno = error_before;
  if (!is_watching || name.empty()) {
    return Outcome::kUnwatched;
  }
  if (watch.keeps_journal && action != FileAction::kRead) {
    watch.journal.push_back(make_entry(std::move(name)));
  } else if (watch.action == action && (--watch.left == 0 || (watch.left < 0 && watch.for_ever))) {
    watch.happened = true;
    errno = watch.error;
    return watch.error == FileFault::kShort ? Outcome::kShort : Outcome::kFailed;
  }
  return Outcome::kCounted;
}

using Kind = FileJournal::Entry::Kind;

ssize_t read_at(int fd, void* into, size_t size, off_t offset) {
  switch (act(FileAction::kRead, fd, [](std::string) { return FileJournal::Entry(); })) {
    case Outcome::kFailed:
      return -1;
    case Outcome::kShort:
      return 0;
    default:
      break;
  }
  return ::syscall(SYS_pread64, fd, into, size, offset);
}

ssize_t write_at(int fd, const void* from, size_t size, off_t offset) {
  const auto entry = [&](std::string name) {
    return FileJournal::Entry{.kind = Kind::kWrite,
                              .name = std::move(name),
                              .offset = offset,
                              .bytes = std::string(static_cast<const char*>(from), size)};
  };
  const Outcome outcome = act(FileAction::kWrite, fd, entry);
  return outcome == Outcome::kFailed
             ? -1
             : ::syscall(SYS_pwrite64, fd, from, outcome == Outcome::kShort ? size / 2 : size, offset);
}

int resize(int fd, off_t size) {
  const auto entry = [&](std::string name) {
    return FileJournal::Entry{.kind = Kind::kSize, .name = std::move(name), .offset = size, .bytes = {}};
  };
  return act(FileAction::kWrite, fd, entry) == Outcome::kFailed ? -1
                                                                : static_cast<int>(::syscall(SYS_ftruncate, fd, size));
}

bool is_the_folder(int fd) {
  const std::scoped_lock lock(mutex);
  return is_watching && path_of(fd) == watch.folder;
}

int sync(int fd, long call) {
  const auto entry = [](std::string name) {
    return FileJournal::Entry{.kind = Kind::kSync, .name = std::move(name), .offset = 0, .bytes = {}};
  };
  switch (act(FileAction::kSync, fd, entry)) {
    case Outcome::kFailed:
      return -1;
    case Outcome::kUnwatched:
      return is_the_folder(fd) ? 0 : static_cast<int>(::syscall(call, fd));
    default:
      return 0;  // no disk is waited for
  }
}

void note_removal(int folder, const char* path) {
  if (!is_watching.load(std::memory_order_relaxed)) {
    return;
  }
  const std::scoped_lock lock(mutex);
  const std::string_view text(path);
  const std::string_view name = text.substr(text.rfind('/') + 1);
  const int error_before = errno;
  const std::string parent = folder == AT_FDCWD ? "" : path_of(folder);
  errno = error_before;
  const bool inside =
      text.starts_with(watch.folder + "/") || text.starts_with("/proc/self/fd/") || parent == watch.folder;
  if (is_watching && watch.keeps_journal && inside) {
    watch.journal.push_back({.kind = Kind::kRemoval, .name = std::string(name), .offset = 0, .bytes = {}});
  }
}

void begin(Watch next) {
  const std::scoped_lock lock(mutex);
  watch = std::move(next);
  is_watching = true;
}

void end() {
  const std::scoped_lock lock(mutex);
  is_watching = false;
}

}  // namespace

FileFault::FileFault(const std::string& folder, FileAction action, int64_t nth, int error, Lasts lasts) {
  begin({.folder = folder, .action = action, .left = nth, .error = error, .for_ever = lasts == Lasts::kForEver});
}
FileFault::FileFault(const std::string& folder) : FileFault(folder, FileAction::kRead, INT64_MAX, 0) {}
FileFault::~FileFault() { end(); }
bool FileFault::happened() const {
  const std::scoped_lock lock(mutex);
  return watch.happened;
}

FileJournal::FileJournal(const std::string& folder) { begin({.folder = folder, .keeps_journal = true}); }
FileJournal::~FileJournal() { end(); }
std::vector<FileJournal::Entry> FileJournal::entries() const {
  const std::scoped_lock lock(mutex);
  return watch.journal;
}

namespace {

constexpr size_t kSector = 512;

void apply(const FileJournal::Entry& entry, std::string& content) {
  if (entry.kind == Kind::kSize) {
    content.resize(static_cast<size_t>(entry.offset));
  } else if (entry.kind == Kind::kWrite) {
    const auto offset = static_cast<size_t>(entry.offset);
    content.resize(std::max(content.size(), offset + entry.bytes.size()));
    content.replace(offset, entry.bytes.size(), entry.bytes);
  }
}

/// The part of a write that reached the disk: some of its sectors, not only the first ones.
void apply_torn(const FileJournal::Entry& entry, std::string& content, std::mt19937_64& random) {
  for (size_t at = 0; at < entry.bytes.size(); at += kSector) {
    if (random() % 2 == 0) {
      apply({.kind = Kind::kWrite,
             .name = entry.name,
             .offset = entry.offset + static_cast<int64_t>(at),
             .bytes = entry.bytes.substr(at, kSector)},
            content);
    }
  }
}

}  // namespace

void make_files_after_power_cut(const std::vector<FileJournal::Entry>& entries, size_t count, Unsynced unsynced,
                                uint64_t seed, const std::string& folder) {
  std::mt19937_64 random(seed);
  std::map<std::string, std::vector<const FileJournal::Entry*>> of_file;
  for (size_t i = 0; i < count; ++i) {
    auto& list = of_file[entries[i].name];
    list.push_back(&entries[i]);
    if (entries[i].kind == Kind::kRemoval) {
      list.clear();
      of_file.erase(entries[i].name);
    }
  }
  for (const auto& [name, list] : of_file) {
    size_t safe = list.size();
    while (safe > 0 && list[safe - 1]->kind != Kind::kSync) {
      --safe;
    }
    const size_t more = list.size() - safe;
    const size_t kept = unsynced == Unsynced::kAll       ? list.size()
                        : unsynced == Unsynced::kNothing ? safe
                                                         : safe + random() % (more + 1);
    std::string content;
    for (size_t i = 0; i < kept; ++i) {
      const bool torn = i + 1 == kept && i >= safe && list[i]->kind == Kind::kWrite && random() % 2 == 0;
      torn ? apply_torn(*list[i], content, random) : apply(*list[i], content);
    }
    std::ofstream(folder + "/" + name, std::ios::binary) << content;
  }
}

}  // namespace stalltrace::store

// Instead of the C library's functions of these names, for all of this program. The C++ names differ, since the
// library's headers define some of them inline.
extern "C" {
ssize_t st_pread(int fd, void* into, size_t size, off_t offset) __asm__("pread");
ssize_t st_pread64(int fd, void* into, size_t size, off_t offset) __asm__("pread64");
ssize_t st_pwrite(int fd, const void* from, size_t size, off_t offset) __asm__("pwrite");
ssize_t st_pwrite64(int fd, const void* from, size_t size, off_t offset) __asm__("pwrite64");
int st_ftruncate(int fd, off_t size) __asm__("ftruncate");
int st_ftruncate64(int fd, off_t size) __asm__("ftruncate64");
int st_fsync(int fd) __asm__("fsync");
int st_fdatasync(int fd) __asm__("fdatasync");
int st_unlink(const char* path) __asm__("unlink");
int st_unlinkat(int folder, const char* path, int flags) __asm__("unlinkat");

ssize_t st_pread(int fd, void* into, size_t size, off_t offset) {
  return stalltrace::store::read_at(fd, into, size, offset);
}
ssize_t st_pread64(int fd, void* into, size_t size, off_t offset) {
  return stalltrace::store::read_at(fd, into, size, offset);
}
ssize_t st_pwrite(int fd, const void* from, size_t size, off_t offset) {
  return stalltrace::store::write_at(fd, from, size, offset);
}
ssize_t st_pwrite64(int fd, const void* from, size_t size, off_t offset) {
  return stalltrace::store::write_at(fd, from, size, offset);
}
int st_ftruncate(int fd, off_t size) { return stalltrace::store::resize(fd, size); }
int st_ftruncate64(int fd, off_t size) { return stalltrace::store::resize(fd, size); }
int st_fsync(int fd) { return stalltrace::store::sync(fd, SYS_fsync); }
int st_fdatasync(int fd) { return stalltrace::store::sync(fd, SYS_fdatasync); }
int st_unlink(const char* path) {
  const int removed = static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
  if (removed == 0) {
    stalltrace::store::note_removal(AT_FDCWD, path);
  }
  return removed;
}
int st_unlinkat(int folder, const char* path, int flags) {
  const int removed = static_cast<int>(::syscall(SYS_unlinkat, folder, path, flags));
  if (removed == 0) {
    stalltrace::store::note_removal(folder, path);
  }
  return removed;
}
}
