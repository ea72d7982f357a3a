// SPDX-License-Identifier: Apache-2.0
// What /proc holds about a process. The root folder is replaceable, so that tests can fake a host.
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

/// What is shown of command lines (plugin/wire/redaction.h).
enum class CommandLines { kRedacted, kWhole };

class Procfs {
 public:
  explicit Procfs(std::string root = "/proc", CommandLines commands = CommandLines::kRedacted)
      : root_(std::move(root)), commands_(commands) {}

  /// Of a file in the process's folder.
  [[nodiscard]] std::string path(pid_t pid, std::string_view name) const;
  /// Every process now, in ascending order. Empty if the folder can't be read.
  [[nodiscard]] std::vector<pid_t> pids() const;
  /// Executable file mappings, each file once (its first mapping).
  [[nodiscard]] Result<std::vector<MappedFile>> executable_mappings(pid_t pid) const;
  /// The same, but every mapping of a file.
  [[nodiscard]] Result<std::vector<MappedFile>> code_mappings(pid_t pid) const;
  /// As given at exec.
  [[nodiscard]] Result<Environment> environment(pid_t pid) const;
  /// Arguments joined with blanks, at most 4 KiB, without what is secret in them unless asked for whole.
  [[nodiscard]] std::string command_line(pid_t pid) const;
  [[nodiscard]] std::string executable(pid_t pid) const;
  /// Its threads now, in ascending order, at most a few thousand; empty when it is gone.
  [[nodiscard]] std::vector<pid_t> threads(pid_t pid) const;
  /// A small file in a thread's folder ("syscall"), without the newline; empty when it can't be read.
  [[nodiscard]] std::string thread_file(pid_t pid, pid_t tid, std::string_view name) const;
  /// 'R', 'S', 'D', 'T' ... as in proc(5); '\0' when it is gone.
  [[nodiscard]] char thread_state(pid_t pid, pid_t tid) const;
  /// A thread's name; empty when it is gone.
  [[nodiscard]] std::string thread_name(pid_t pid, pid_t tid) const;
  /// Start of the process in clock ticks since boot, 0 when it is gone.
  [[nodiscard]] uint64_t start_ticks(pid_t pid) const;
  /// The parent's number, 0 when the process is gone or has none.
  [[nodiscard]] pid_t parent(pid_t pid) const;
  /// Whether the process still is the program its parent was: forked, and never called exec since.
  [[nodiscard]] bool is_fork(pid_t pid) const;
  /// Inode number of the network namespace, 0 when it can't be read.
  [[nodiscard]] uint64_t netns(pid_t pid) const;
  /// Inode number of the innermost pid namespace it is in, 0 when it can't be read.
  [[nodiscard]] uint64_t pid_namespace(pid_t pid) const;
  [[nodiscard]] bool exists(pid_t pid) const;
  /// Whether this program knows processes by the numbers that the kernel knows them by: it is in no container with a
  /// pid namespace of its own. True where that can't be read.
  [[nodiscard]] bool in_first_pid_namespace() const;
  /// Who runs it; none when it is gone.
  [[nodiscard]] std::optional<uid_t> owner(pid_t pid) const;
  /// Its number in the innermost pid namespace it is in; 0 when it is gone.
  [[nodiscard]] pid_t inner_pid(pid_t pid) const;
  /// The numbers of its threads there → here; empty when it is gone, or has more than a few thousand.
  [[nodiscard]] std::map<pid_t, pid_t> inner_threads(pid_t pid) const;
  /// A path of its mount namespace, as it can be opened from here.
  [[nodiscard]] std::string in_root(pid_t pid, const std::string& inner_path) const {
    return path(pid, "root") + inner_path;
  }

  /// The user whose rights it has, also where it hides its memory (owner() is root then); none when it is gone.
  [[nodiscard]] std::optional<uid_t> user(pid_t pid) const;

  /// The mapped file itself, not another that has its address or its path by now; empty when it can't be opened, or is
  /// no regular file. Never waits, except for a file system that doesn't answer (base/untrusted).
  [[nodiscard]] UniqueFd open_mapped(pid_t pid, const MappedFile& file) const;

 private:
  /// A number of /proc/PID/stat by its place in proc(5), from 3 on; 0 when the process is gone.
  [[nodiscard]] int64_t stat_number(pid_t pid, size_t field) const;
  /// A mapping by its address, or by the path where the kernel lets nobody else; only as a place (O_PATH).
  [[nodiscard]] UniqueFd find_mapped(pid_t pid, const MappedFile& file) const;

  std::string root_;
  CommandLines commands_;
};

/// One line of /proc/PID/maps, if it maps a file executable.
std::optional<MappedFile> parse_maps_line(std::string_view line);

}  // namespace stalltrace
