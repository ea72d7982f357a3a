// SPDX-License-Identifier: Apache-2.0
#include "base/process/procfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <set>
#include <tuple>

#include "base/file.h"
#include "base/handle.h"
#include "base/process/secrets.h"
#include "base/text.h"

namespace stalltrace {
namespace {

constexpr size_t kCommandLineBytes = 4096;

/// Reads a number in `base` up to `stop`, and advances past `stop`.
bool take_number(std::string_view& text, char stop, int base, uint64_t& value) {
  const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (code != std::errc{} || rest == text.data() + text.size() || *rest != stop) {
    return false;
  }
  text.remove_prefix(static_cast<size_t>(rest - text.data()) + 1);
  return true;
}

/// A line of /proc/PID/maps. `code_of_files`: nullopt for all other memory, as early as possible: most lines are of
/// such.
std::optional<Mapping> parse_line(std::string_view line, bool code_of_files) {
  // start-end perms offset major:minor inode   path
  Mapping mapping;
  MappedFile& file = mapping.file;
  uint64_t major = 0;
  uint64_t minor = 0;
  if (!take_number(line, '-', 16, file.start) || !take_number(line, ' ', 16, file.end) || line.size() < 5) {
    return std::nullopt;
  }
  mapping.executable = line[2] == 'x';
  mapping.writable = line[1] == 'w';
  mapping.shared = line[3] == 's';
  if (code_of_files && !mapping.executable) {
    return std::nullopt;
  }
  line.remove_prefix(5);
  if (!take_number(line, ' ', 16, file.offset) || !take_number(line, ':', 16, major) ||
      !take_number(line, ' ', 16, minor) || !take_number(line, ' ', 10, file.inode)) {
    return std::nullopt;
  }
  line = trim(line);
  if (code_of_files && (file.inode == 0 || !line.starts_with('/'))) {
    return std::nullopt;
  }
  file.device_major = static_cast<uint32_t>(major);
  file.device_minor = static_cast<uint32_t>(minor);
  file.path = line;
  return mapping;
}

constexpr size_t kMostThreads = 4096;

/// Inode of the initial pid namespace: PROC_PID_INIT_INO of include/linux/proc_ns.h, since Linux 3.8.
constexpr ino_t kFirstPidNamespace = 0xeffffffc;

/// The last number of a status file's NSpid line; 0 if the process has ended.
pid_t inner_number(const std::string& status_path) {
  const std::string status = read_file(status_path, 8192).value_or("");
  for (const std::string_view line : split(status, '\n')) {
    if (line.starts_with("NSpid:")) {
      const auto numbers = split(line, '\t');
      return static_cast<pid_t>(parse_integer(trim(numbers.back())).value_or(0));
    }
  }
  return 0;
}

}  // namespace

std::optional<Mapping> parse_mapping(std::string_view line) { return parse_line(line, false); }

std::optional<MappedFile> parse_maps_line(std::string_view line) {
  auto mapping = parse_line(line, true);
  return mapping ? std::optional(std::move(mapping->file)) : std::nullopt;
}

std::string_view value_of(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string_view() : std::string_view(found->second);
}

std::string Procfs::path(pid_t pid, std::string_view name) const { return fmt::format("{}/{}/{}", root_, pid, name); }

std::vector<pid_t> Procfs::pids() const {
  std::vector<pid_t> result;
  const std::unique_ptr<DIR, Free<closedir>> folder(opendir(root_.c_str()));
  if (!folder) {
    return result;
  }
  while (const dirent* entry = readdir(folder.get())) {
    if (const auto number = parse_integer(entry->d_name); number && *number > 0) {
      result.push_back(static_cast<pid_t>(*number));
    }
  }
  std::sort(result.begin(), result.end());
  return result;
}

Result<std::vector<MappedFile>> Procfs::code_mappings(pid_t pid) const {
  ST_ASSIGN(const std::string maps, read_file(path(pid, "maps")));
  std::vector<MappedFile> result;
  for (const std::string_view line : split(maps, '\n')) {
    if (auto file = parse_maps_line(line)) {
      result.push_back(std::move(*file));
    }
  }
  return result;
}

Result<std::vector<MappedFile>> Procfs::executable_mappings(pid_t pid) const {
  ST_ASSIGN(std::vector<MappedFile> mappings, code_mappings(pid));
  std::vector<MappedFile> result;
  std::set<std::tuple<uint32_t, uint32_t, uint64_t>> known;
  for (MappedFile& file : mappings) {
    if (known.emplace(file.device_major, file.device_minor, file.inode).second) {
      result.push_back(std::move(file));
    }
  }
  return result;
}

Result<Environment> Procfs::environment(pid_t pid) const {
  ST_ASSIGN(const std::string text, read_file(path(pid, "environ")));
  Environment result;
  for (const std::string_view entry : split(text, '\0')) {
    const size_t equals = entry.find('=');
    if (equals != std::string_view::npos) {
      result.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  return result;
}

std::string Procfs::command_line(pid_t pid) const {
  // Reads more than is kept: redaction needs the text around a secret.
  std::string text = read_file(path(pid, "cmdline"), 4 * kCommandLineBytes).value_or("");
  if (commands_ == CommandLines::kRedacted) {
    hide_secrets(text);
  }
  text.resize(std::min(text.size(), kCommandLineBytes));
  while (!text.empty() && text.back() == '\0') {
    text.pop_back();
  }
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

std::string Procfs::executable(pid_t pid) const {
  char target[PATH_MAX];
  const ssize_t length = ::readlink(path(pid, "exe").c_str(), target, sizeof target);
  return length > 0 ? std::string(target, static_cast<size_t>(length)) : std::string();
}

std::vector<pid_t> Procfs::threads(pid_t pid) const {
  std::vector<pid_t> result;
  const std::unique_ptr<DIR, Free<closedir>> folder(opendir(path(pid, "task").c_str()));
  while (const dirent* entry = folder && result.size() < kMostThreads ? readdir(folder.get()) : nullptr) {
    if (const auto tid = parse_integer(entry->d_name); tid && *tid > 0) {
      result.push_back(static_cast<pid_t>(*tid));
    }
  }
  std::sort(result.begin(), result.end());
  return result;
}

std::string Procfs::thread_file(pid_t pid, pid_t tid, std::string_view name) const {
  return std::string(trim(read_file(path(pid, fmt::format("task/{}/{}", tid, name)), 8192).value_or("")));
}

char Procfs::thread_state(pid_t pid, pid_t tid) const {
  const std::string stat = thread_file(pid, tid, "stat");
  const size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.size() > name_end + 2 ? stat[name_end + 2] : '\0';
}

std::string Procfs::thread_name(pid_t pid, pid_t tid) const { return thread_file(pid, tid, "comm"); }

int64_t Procfs::stat_number(pid_t pid, size_t field) const {
  const std::string stat = read_file(path(pid, "stat"), 4096).value_or("");
  // The name, field 2, is in parentheses and may hold blanks and parentheses: fields are counted from the last ')'.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos || stat.size() < name_end + 2) {
    return 0;
  }
  const auto fields = split(std::string_view(stat).substr(name_end + 2), ' ');
  constexpr size_t kFirstField = 3;
  return fields.size() > field - kFirstField ? parse_integer(fields[field - kFirstField]).value_or(0) : 0;
}

uint64_t Procfs::start_ticks(pid_t pid) const {
  constexpr size_t kStartTime = 22;
  return static_cast<uint64_t>(stat_number(pid, kStartTime));
}

pid_t Procfs::parent(pid_t pid) const {
  constexpr size_t kParent = 4;
  return static_cast<pid_t>(stat_number(pid, kParent));
}

bool Procfs::is_fork(pid_t pid) const {
  constexpr size_t kFlags = 9;
  constexpr int64_t kForkNoExec = 0x40;  // PF_FORKNOEXEC of linux/sched.h
  return (stat_number(pid, kFlags) & kForkNoExec) != 0;
}

uint64_t Procfs::netns(pid_t pid) const {
  struct stat info {};
  return ::stat(path(pid, "ns/net").c_str(), &info) == 0 ? info.st_ino : 0;
}

uint64_t Procfs::pid_namespace(pid_t pid) const {
  struct stat info {};
  return ::stat(path(pid, "ns/pid").c_str(), &info) == 0 ? info.st_ino : 0;
}

bool Procfs::in_first_pid_namespace() const {
  struct stat info {};
  return ::stat((root_ + "/self/ns/pid").c_str(), &info) != 0 || info.st_ino == kFirstPidNamespace;
}

std::optional<uid_t> Procfs::owner(pid_t pid) const {
  struct stat info {};
  return ::stat(path(pid, "stat").c_str(), &info) == 0 ? std::optional(info.st_uid) : std::nullopt;
}

pid_t Procfs::inner_pid(pid_t pid) const { return inner_number(path(pid, "status")); }

std::map<pid_t, pid_t> Procfs::inner_threads(pid_t pid) const {
  std::map<pid_t, pid_t> threads;
  const std::unique_ptr<DIR, Free<closedir>> folder(opendir(path(pid, "task").c_str()));
  while (const dirent* entry = folder ? readdir(folder.get()) : nullptr) {
    if (threads.size() > kMostThreads) {
      return {};
    }
    if (const auto tid = parse_integer(entry->d_name); tid && *tid > 0) {
      threads[inner_number(path(pid, fmt::format("task/{}/status", *tid)))] = static_cast<pid_t>(*tid);
    }
  }
  return threads;
}

bool Procfs::exists(pid_t pid) const { return ::access(path(pid, "stat").c_str(), F_OK) == 0; }

std::optional<uid_t> Procfs::user(pid_t pid) const {
  const std::string status = read_file(path(pid, "status"), 8192).value_or("");
  for (const std::string_view line : split(status, '\n')) {
    if (line.starts_with("Uid:")) {  // real, effective, saved, of file systems
      const auto numbers = split(line, '\t');
      const auto effective = numbers.size() > 2 ? parse_integer(numbers[2]) : Result<int64_t>(-1);
      return effective && *effective >= 0 ? std::optional(static_cast<uid_t>(*effective)) : std::nullopt;
    }
  }
  return std::nullopt;
}

/// By the path, whose links the kernel has already resolved.
UniqueFd Procfs::find_by_path(pid_t pid, const MappedFile& file) const {
  const UniqueFd root(::open(path(pid, "root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::string inner = file.path.substr(std::min<size_t>(file.path.find_first_not_of('/'), file.path.size()));
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  UniqueFd handle(static_cast<int>(::syscall(SYS_openat2, root.get(), inner.c_str(), &how, sizeof how)));
  if (!handle && (errno == ENOSYS || errno == EPERM)) {  // before Linux 5.6, or a container's filter of that time
    handle = UniqueFd(::openat(root.get(), inner.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  }
  return handle;
}

Procfs::MappedFileHandle Procfs::find_mapped(pid_t pid, const MappedFile& file) const {
  MappedFileHandle handle;
  if (file.end != 0) {
    const std::string link = path(pid, fmt::format("map_files/{:x}-{:x}", file.start, file.end));
    handle.fd = UniqueFd(::open(link.c_str(), O_PATH | O_CLOEXEC));
    handle.moved = !handle.fd && errno == ENOENT;
  }
  if (!handle.fd && (file.end == 0 || errno == EPERM || errno == EACCES)) {
    handle.fd = find_by_path(pid, file);
  }
  struct statx info {};
  if (!handle.fd ||
      ::statx(handle.fd.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO | STATX_MNT_ID, &info) !=
          0 ||
      !S_ISREG(info.stx_mode) || info.stx_ino != file.inode) {
    handle.fd.reset();
    return handle;
  }
  handle.device_major = info.stx_dev_major;
  handle.device_minor = info.stx_dev_minor;
  handle.mount_id = (info.stx_mask & STATX_MNT_ID) != 0 ? info.stx_mnt_id : 0;
  return handle;
}

UniqueFd Procfs::MappedFileHandle::open() const {
  // O_NONBLOCK keeps a lease of the file's owner from blocking us.
  return fd ? UniqueFd(::open(fmt::format("/proc/self/fd/{}", fd.get()).c_str(),
                              O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC))
            : UniqueFd();
}

UniqueFd Procfs::open_mapped(pid_t pid, const MappedFile& file) const {
  const MappedFileHandle handle = find_mapped(pid, file);
  if (!handle.moved) {
    return handle.open();
  }
  const auto mappings = executable_mappings(pid).value_or(std::vector<MappedFile>());
  const MappedFile* now = find_moved(mappings, file);
  return now ? find_mapped(pid, *now).open() : UniqueFd();
}

const MappedFile* find_moved(const std::vector<MappedFile>& mappings, const MappedFile& file) {
  const auto same = std::ranges::find_if(mappings, [&](const MappedFile& one) {
    return one.device_major == file.device_major && one.device_minor == file.device_minor && one.inode == file.inode &&
           one.path == file.path && (one.start != file.start || one.end != file.end);
  });
  return same == mappings.end() ? nullptr : &*same;
}

}  // namespace stalltrace
