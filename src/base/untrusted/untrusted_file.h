// SPDX-License-Identifier: Apache-2.0
// A file that another user may have chosen. It is opened once, without waiting and without side effects; from then on
// only its descriptor is used: the file that is parsed, probed and compared is the same, whatever its path leads to.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/handle.h"
#include "base/process/procfs.h"
#include "base/result.h"
#include "base/untrusted/mounts.h"

namespace stalltrace {

/// Identifies a file and its state. A file below several overlays of the host is one file, as for the kernel's probes.
struct FileIdentity {
  std::string file;  // file system and inode
  int64_t size = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;  // ctime, which no user can set

  auto operator<=>(const FileIdentity&) const = default;
};

enum class OpenRefusal {
  kGone,    // it can't be opened, is not a regular file, or the process maps another one by now
  kRemote,  // on a file system that may not answer
  kMoved,   // nothing is mapped at that address now: the process may have mapped the file again
};

class UntrustedFile {
 public:
  /// Opens the file that a process maps.
  static std::expected<UntrustedFile, OpenRefusal> open_mapped(const Procfs& procfs, Mounts& mounts, pid_t pid,
                                                               const MappedFile& file);
  /// The same on any file system: it may never return. For use in a helper process.
  static std::expected<UntrustedFile, OpenRefusal> open_anywhere(const Procfs& procfs, pid_t pid,
                                                                 const MappedFile& file);
  /// Opens `folder`/`name` of a process's own root, such as "/tmp" and "perf-7.map"; neither may be a link.
  static std::expected<UntrustedFile, OpenRefusal> open_in_root(const Procfs& procfs, Mounts& mounts, pid_t pid,
                                                                const std::string& folder, const std::string& name);
  /// Takes over a file that a helper process opened on such a file system, with the helper's description; nullopt if
  /// that is garbled. The descriptor should be one that only names the file (O_PATH): the kernel asks the file system
  /// when another one is closed.
  static std::optional<UntrustedFile> adopt(UniqueFd fd, std::string_view facts);
  [[nodiscard]] std::string facts() const;
  /// Opens a path in this program's namespace; links are followed. Errors: not found, not readable, not a regular file.
  static Result<UntrustedFile> open_path(const std::string& path);

  [[nodiscard]] int fd() const { return fd_.get(); }
  /// Leads to this very file while this object lives.
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }
  [[nodiscard]] const FileIdentity& identity() const { return identity_; }
  [[nodiscard]] uid_t owner() const { return facts_.owner; }
  /// On a file system that may not answer: only a helper process may read it.
  [[nodiscard]] bool is_remote() const { return remote_; }
  [[nodiscard]] UniqueFd duplicate() const;
  /// Whether a user other than its owner may write it. A group with the owner's number is the owner's private group and
  /// counts as the owner.
  [[nodiscard]] bool others_may_write() const;
  /// Whether it is still in the state in which it was opened, as far as the file system reports.
  [[nodiscard]] bool is_unchanged() const;

 private:
  struct Facts {
    int64_t size = 0;
    int64_t modified_ns = 0;
    int64_t changed_ns = 0;
    uid_t owner = 0;
    gid_t group = 0;
    mode_t mode = 0;
  };
  UntrustedFile(UniqueFd fd, const Facts& facts, std::string file);
  static Facts facts_of(const struct stat& info);

  UniqueFd fd_;
  Facts facts_;
  FileIdentity identity_;
  bool remote_ = false;
};

/// Owners whose files may be probed, if no other user can write them: root, the process's own user, the root of the
/// process's user namespace (of an unprivileged container), and the users listed here.
struct TrustedOwners {
  std::vector<uid_t> users;
  bool any_user = false;  // all: so that those who may write a file besides its owner are trusted, too

  [[nodiscard]] bool have(uid_t user) const;
};

/// The reason, for users, why a process's file may not be probed ("it belongs to user 1002"); nullopt if it may.
std::optional<std::string> reason_for_distrust(const Procfs& procfs, pid_t pid, const UntrustedFile& file,
                                               const TrustedOwners& trusted);

}  // namespace stalltrace
