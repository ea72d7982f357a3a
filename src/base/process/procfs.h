// SPDX-License-Identifier: Apache-2.0
// The content of /proc about processes. The root folder is replaceable, so that tests can fake a host.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace {

/// A file mapped executable.
struct MappedFile {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t offset = 0;  // of `start`, in the file
  uint32_t device_major = 0;
  uint32_t device_minor = 0;
  uint64_t inode = 0;
  std::string path;  // in the process's own mount namespace
};

using Environment = std::map<std::string, std::string, std::less<>>;
/// Empty where the variable is not set.
std::string_view value_of(const Environment& environment, std::string_view name);

/// Whether command lines are redacted (plugin/wire/redaction.h).
enum class CommandLines { kRedacted, kWhole };

class Procfs {
 public:
  explicit Procfs(std::string root = "/proc", CommandLines commands = CommandLines::kRedacted)
      : root_(std::move(root)), commands_(commands) {}

  /// The path of a file in the process's folder.
  [[nodiscard]] std::string path(pid_t pid, std::string_view name) const;
  /// All processes, in ascending order. Empty if the folder can't be read.
  [[nodiscard]] std::vector<pid_t> pids() const;
  /// Executable file mappings, each file once (its first mapping).
  [[nodiscard]] Result<std::vector<MappedFile>> executable_mappings(pid_t pid) const;
  /// The same, with every mapping of a file.
  [[nodiscard]] Result<std::vector<MappedFile>> code_mappings(pid_t pid) const;
  /// The environment at exec.
  [[nodiscard]] Result<Environment> environment(pid_t pid) const;
  /// Arguments joined with blanks, at most 4 KiB, redacted unless requested whole.
  [[nodiscard]] std::string command_line(pid_t pid) const;
  [[nodiscard]] std::string executable(pid_t pid) const;
  /// The process's threads in ascending order, at most a few thousand; empty if it has ended.
  [[nodiscard]] std::vector<pid_t> threads(pid_t pid) const;
  /// A small file in a thread's folder ("syscall"), without the newline; empty if it can't be read.
  [[nodiscard]] std::string thread_file(pid_t pid, pid_t tid, std::string_view name) const;
  /// 'R', 'S', 'D', 'T' ... as in proc(5); '\0' if it has ended.
  [[nodiscard]] char thread_state(pid_t pid, pid_t tid) const;
  /// A thread's name; empty if it has ended.
  [[nodiscard]] std::string thread_name(pid_t pid, pid_t tid) const;
  /// Start of the process in clock ticks since boot; 0 if it has ended.
  [[nodiscard]] uint64_t start_ticks(pid_t pid) const;
  /// The parent's number; 0 if the process has ended or has no parent.
  [[nodiscard]] pid_t parent(pid_t pid) const;
  /// Whether the process runs its parent's program: forked, and never called exec since.
  [[nodiscard]] bool is_fork(pid_t pid) const;
  /// Inode number of the network namespace; 0 if it can't be read.
  [[nodiscard]] uint64_t netns(pid_t pid) const;
  /// Inode number of the process's innermost pid namespace; 0 if it can't be read.
  [[nodiscard]] uint64_t pid_namespace(pid_t pid) const;
  [[nodiscard]] bool exists(pid_t pid) const;
  /// Whether this program sees the kernel's own process numbers, that is, is in no container with a pid namespace of
  /// its own. True where that can't be read.
  [[nodiscard]] bool in_first_pid_namespace() const;
  /// The user who runs it; nullopt if it has ended.
  [[nodiscard]] std::optional<uid_t> owner(pid_t pid) const;
  /// Its number in its innermost pid namespace; 0 if it has ended.
  [[nodiscard]] pid_t inner_pid(pid_t pid) const;
  /// Its threads: numbers in its namespace → numbers here; empty if it has ended or has more than a few thousand.
  [[nodiscard]] std::map<pid_t, pid_t> inner_threads(pid_t pid) const;
  /// A path of its mount namespace, in a form that can be opened from here.
  [[nodiscard]] std::string in_root(pid_t pid, const std::string& inner_path) const {
    return path(pid, "root") + inner_path;
  }

  /// The user whose rights it has, even if it hides its memory (owner() is then root); nullopt if it has ended.
  [[nodiscard]] std::optional<uid_t> user(pid_t pid) const;

  /// A mapped file, found but not opened (O_PATH).
  struct MappedFileHandle {
    UniqueFd fd;         // empty: it is not there any more, or is not a regular file, or the process maps another
    bool moved = false;  // nothing is mapped at that address now: the file may be at another
    uint32_t device_major = 0;
    uint32_t device_minor = 0;
    uint64_t mount_id = 0;

    /// For reading.
    [[nodiscard]] UniqueFd open() const;
  };
  /// Finds a mapped file at its address, by its path only where the kernel refuses that. The file's own file system is
  /// not asked anything: it may be a user's program.
  [[nodiscard]] MappedFileHandle find_mapped(pid_t pid, const MappedFile& file) const;
  /// Opens the mapped file itself, never another one that now has its address or path; empty if it can't be opened or
  /// is not a regular file. Waits only for file systems that don't answer (base/untrusted).
  [[nodiscard]] UniqueFd open_mapped(pid_t pid, const MappedFile& file) const;

 private:
  /// A numeric field of /proc/PID/stat, numbered from 3 as in proc(5); 0 if the process has ended.
  [[nodiscard]] int64_t stat_number(pid_t pid, size_t field) const;
  [[nodiscard]] UniqueFd find_by_path(pid_t pid, const MappedFile& file) const;

  std::string root_;
  CommandLines commands_;
};

/// The mapping of the same file at another address by now; null where there is none.
const MappedFile* find_moved(const std::vector<MappedFile>& mappings, const MappedFile& file);

/// A line of /proc/PID/maps, of any kind.
struct Mapping {
  MappedFile file;  // no file: `inode` is 0, and `path` is empty or a name such as "[vdso]"
  bool executable = false;
  bool writable = false;
  bool shared = false;  // between processes
};
/// nullopt if malformed. Lines of memory without a file and without a name end with blanks after the inode.
std::optional<Mapping> parse_mapping(std::string_view line);

/// The same; nullopt unless it maps a file executable.
std::optional<MappedFile> parse_maps_line(std::string_view line);

}  // namespace stalltrace
