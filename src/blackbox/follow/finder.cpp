// SPDX-License-Identifier: Apache-2.0
#include "blackbox/follow/finder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "plugin/wire/blackbox.h"

namespace stalltrace::blackbox {
namespace {

constexpr size_t kMostFolders = 64;
constexpr size_t kMostFoldersOfUser = 48;
constexpr size_t kMostTargets = 1024;
constexpr size_t kMostTargetsOfUser = 512;
constexpr size_t kMostKnown = 16384;                // per folder; further ones are examined again
constexpr int kNamesAtOnce = 4096;                  // per folder and search
constexpr int kFilesAtOnce = 64;                    // files of one user opened in one search
constexpr int64_t kAllNamesNs = 16 * kNsPerSecond;  // interval between trials of all names of one process
constexpr int64_t kBeingMadeNs = 10 * kNsPerSecond;
/// Maximum age of the last sign of life of a dead process that may have caused a hang.
constexpr int64_t kStillOfInterestNs = 600 * kNsPerSecond;

/// True for file systems of this host. A network or user file system may never answer.
bool is_local(int folder) {
  constexpr std::array<int64_t, 7> kLocal{TMPFS_MAGIC,       RAMFS_MAGIC,           EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,
                                          BTRFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, F2FS_SUPER_MAGIC};
  struct statfs info {};
  return ::fstatfs(folder, &info) == 0 && std::ranges::find(kLocal, static_cast<int64_t>(info.f_type)) != kLocal.end();
}

UniqueFd open_file(int folder, const char* name) {
  return UniqueFd(::openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW));
}

/// Opens a folder as seen by a process with this root: links on the path are resolved below `root`.
UniqueFd open_below(const std::string& root, const std::string& path) {
  const UniqueFd base(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const open_how how{.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .mode = 0, .resolve = RESOLVE_IN_ROOT};
  return base ? UniqueFd(static_cast<int>(::syscall(SYS_openat2, base.get(), path.c_str(), &how, sizeof how)))
              : UniqueFd();
}

bool is_profiler_file_name(std::string_view name) {
  return name.starts_with(ST_BOX_PREFIX) && name.ends_with(kProfilerFileSuffix);
}

}  // namespace

ProfilerFileFinder::ProfilerFileFinder(const Procfs& procfs, Scope scope)
    : procfs_(procfs), scope_(scope), boot_id_(trim(read_file("/proc/sys/kernel/random/boot_id", 64).value_or(""))) {
  if (!scope_.only_living) {
    add_folder("/", kProfilerFolder, 0, true);
  }
}

std::optional<ProfilerFileFinder::FileId> ProfilerFileFinder::add_folder(const std::string& root,
                                                                         const std::string& path, uint32_t user,
                                                                         bool keep) {
  UniqueFd folder = open_below(root, path);
  struct stat info {};
  if (!folder || !is_local(folder.get()) || ::fstat(folder.get(), &info) != 0) {
    return std::nullopt;
  }
  const FileId id{info.st_dev, info.st_ino};
  if (std::ranges::find(folders_, id, &Folder::id) == folders_.end()) {
    const auto of_user =
        std::ranges::count_if(folders_, [&](const Folder& one) { return !one.keep && one.user == user; });
    if (folders_.size() >= kMostFolders || static_cast<size_t>(of_user) >= kMostFoldersOfUser) {
      losses_.add(users_loss(kLostFolders, user));
      return std::nullopt;
    }
    folders_.push_back(
        {.fd = std::move(folder), .id = id, .user = user, .keep = keep, .names = nullptr, .known = {}, .seen = {}});
  }
  return id;
}

void ProfilerFileFinder::add_process(pid_t pid, uint32_t user) {
  const auto owner = procfs_.owner(pid);
  if (!owner) {
    return;
  }
  const auto of_user = static_cast<size_t>(std::ranges::count(targets_, user, &Target::user));
  if (targets_.size() >= kMostTargets || of_user >= kMostTargetsOfUser) {
    return losses_.add(users_loss(kLostProcesses, user));
  }
  std::string folder = kProfilerFolder;
  if (const auto environment = procfs_.environment(pid)) {
    const auto chosen = environment->find("STALLTRACE_DIR");
    if (chosen != environment->end() && chosen->second.starts_with('/')) {
      folder = chosen->second;
    }
  }
  targets_.push_back({.pid = pid,
                      .inner_pid = static_cast<uint32_t>(procfs_.inner_pid(pid)),
                      .start_ticks = procfs_.start_ticks(pid),
                      .pid_namespace = procfs_.pid_namespace(pid),
                      .owner = *owner,
                      .user = user,
                      .folder = add_folder(procfs_.in_root(pid, ""), folder, user, false)});
}

void ProfilerFileFinder::end_process(pid_t pid, const TakeFile& found) {
  for (Target& target : targets_) {
    if (target.pid == pid && !target.file) {
      target.ended = true;
      search_target(target, 0, found);
    }
  }
  std::erase_if(targets_, [pid](const Target& target) { return target.pid == pid; });
  std::erase_if(folders_, [&](const Folder& folder) {
    return !folder.keep && std::ranges::find(targets_, folder.id, &Target::folder) == targets_.end();
  });
}

void ProfilerFileFinder::search(int64_t now_ns, const TakeFile& found) {
  for (Target& target : targets_) {
    if (!target.file) {
      search_target(target, now_ns, found);
    }
  }
  if (!scope_.only_living) {
    for (Folder& folder : folders_) {
      search_gone(folder, now_ns, found);
    }
  }
}

bool ProfilerFileFinder::Target::has(const st_box_header& header) const {
  return inner_pid == header.pid && start_ticks == header.process_start_ticks &&
         (pid_namespace == 0 || header.pid_namespace == 0 || pid_namespace == header.pid_namespace);
}

/// Opens the file by its name, so that other files in the folder cannot hide it, however many they are. The plugin
/// takes a number only where all lower ones are taken, but those files may have been removed since: all names are tried
/// from time to time.
void ProfilerFileFinder::search_target(Target& target, int64_t now_ns, const TakeFile& found) {
  const auto folder = std::ranges::find_if(folders_, [&](const Folder& one) { return one.id == target.folder; });
  if (folder == folders_.end()) {
    return;
  }
  const bool all_names = target.ended || now_ns - target.all_names_tried_ns >= kAllNamesNs;
  target.all_names_tried_ns = all_names ? now_ns : target.all_names_tried_ns;
  for (int number = 0; number < ST_BOX_NAMES; ++number) {
    const std::string name = fmt::format(ST_BOX_PREFIX "{}-{}{}" ST_BOX_SUFFIX, target.inner_pid, target.start_ticks,
                                         number == 0 ? "" : fmt::format("-{}", number));
    UniqueFd file = open_file(folder->fd.get(), name.c_str());
    if (!file && errno == ENOENT && !all_names) {
      return;
    }
    if (auto own = file ? open_target(target, *folder, std::move(file), name) : std::nullopt) {
      if (!found(std::move(*own))) {
        target.file.reset();
        if (!std::exchange(target.refused, true)) {
          losses_.add(users_loss(kLostFiles, target.user));
        }
      }
      return;
    }
  }
}

/// nullopt where the file is not this process's, or not yet.
std::optional<FoundFile> ProfilerFileFinder::open_target(Target& target, Folder& folder, UniqueFd file,
                                                         const std::string& name) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != target.owner) {
    return std::nullopt;
  }
  const FileId id{info.st_dev, info.st_ino};
  auto reader = ProfilerFileReader::adopt(std::move(file), name);
  if (!reader || !target.has(reader->layout()) || !(target.ended || reader->has_writer()) ||
      std::ranges::find(targets_, id, &Target::file) != targets_.end()) {
    return std::nullopt;
  }
  target.file = id;
  folder.known.insert(id);  // also for search_gone()
  folder.seen.insert(id);
  return FoundFile{std::move(*reader), target.pid, true, target.user};
}

/// Continues where the last search ended, so that every name is reached.
void ProfilerFileFinder::search_gone(Folder& folder, int64_t now_ns, const TakeFile& found) {
  if (!folder.names) {
    const int listed = ::openat(folder.fd.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    folder.names.reset(listed < 0 ? nullptr : ::fdopendir(listed));
    if (!folder.names) {
      return;
    }
  }
  std::map<uid_t, int> opened;
  for (int name = 0; name < kNamesAtOnce; ++name) {
    const dirent* entry = ::readdir(folder.names.get());
    if (entry == nullptr) {
      ::rewinddir(folder.names.get());
      std::erase_if(folder.known, [&](const FileId& file) { return !folder.seen.contains(file); });
      folder.seen.clear();
      return;
    }
    struct stat info {};
    if (!is_profiler_file_name(entry->d_name) ||
        ::fstatat(folder.fd.get(), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) {
      continue;
    }
    const FileId file{info.st_dev, info.st_ino};
    folder.seen.insert(file);
    if (folder.known.contains(file) || ++opened[info.st_uid] > kFilesAtOnce) {
      continue;
    }
    const FileDecision verdict = examine(folder.fd.get(), entry->d_name, now_ns, found);
    if (verdict == FileDecision::kTaken || (verdict == FileDecision::kForever && folder.known.size() < kMostKnown)) {
      folder.known.insert(file);
    }
  }
}

bool ProfilerFileFinder::is_recent(const ProfilerFileReader& reader, int64_t now_ns) const {
  const st_box_header& header = reader.layout();
  const auto anchored_ns = static_cast<int64_t>(std::min(header.anchored_ns, uint64_t{1} << 61));
  return text_of(header.boot_id) == boot_id_ && anchored_ns <= now_ns && now_ns - anchored_ns < kStillOfInterestNs &&
         (scope_.only_netns == 0 || header.network_namespace == scope_.only_netns);
}

ProfilerFileFinder::FileDecision ProfilerFileFinder::examine(int folder, const char* name, int64_t now_ns,
                                                             const TakeFile& found) {
  UniqueFd file = open_file(folder, name);
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0) {
    return FileDecision::kForever;
  }
  auto reader = ProfilerFileReader::adopt(std::move(file), name);
  if (!reader) {  // not a profiler file, or one still being made
    const int64_t age_ns = utc_now_ns() - info.st_mtim.tv_sec * kNsPerSecond;
    return age_ns >= 0 && age_ns < kBeingMadeNs ? FileDecision::kLater : FileDecision::kForever;
  }
  const bool is_traced =
      std::ranges::any_of(targets_, [&](const Target& target) { return target.has(reader->layout()); });
  if (is_traced || reader->has_writer()) {
    return FileDecision::kLater;  // of a living process, traced or not
  }
  if (!is_recent(*reader, now_ns)) {
    return FileDecision::kForever;
  }
  if (!found({.reader = std::move(*reader), .user = info.st_uid})) {
    losses_.add(users_loss(kLostFiles, info.st_uid));
  }
  return FileDecision::kTaken;
}

}  // namespace stalltrace::blackbox
