// SPDX-License-Identifier: Apache-2.0
// A file that another user may have chosen. It is opened once, without waiting and without running anything, and from
// then on only its descriptor counts: what is parsed, probed and compared is that file, whatever its path leads to.
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

/// Which file, in which state. One file below several overlays of the host is one, as it is for the kernel's probes.
struct FileIdentity {
  std::string file;  // file system and inode
  int64_t size = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;  // which no user can set

  auto operator<=>(const FileIdentity&) const = default;
};

enum class OpenRefusal {
  kGone,    // it can't be opened, is no regular file, or the process maps another by now
  kRemote,  // on a file system that may keep us waiting
};

class UntrustedFile {
 public:
  /// The file that a process maps.
  static std::expected<UntrustedFile, OpenRefusal> open_mapped(const Procfs& procfs, Mounts& mounts, pid_t pid,
                                                               const MappedFile& file);
  /// The same on whatever file system: it may never return. For a helper process.
  static std::expected<UntrustedFile, OpenRefusal> open_anywhere(const Procfs& procfs, pid_t pid,
                                                                 const MappedFile& file);
  /// One that a helper process opened there, and what it says of it; none where that is garbled.
  static std::optional<UntrustedFile> adopt(UniqueFd fd, std::string_view facts);
  [[nodiscard]] std::string facts() const;
  /// The file at a path of this program's own; links are followed. Errors: not there, not readable, no regular file.
  static Result<UntrustedFile> open_path(const std::string& path);

  [[nodiscard]] int fd() const { return fd_.get(); }
  /// Leads to this very file for as long as this object lives.
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }
  [[nodiscard]] const FileIdentity& identity() const { return identity_; }
  [[nodiscard]] uid_t owner() const { return facts_.owner; }
  /// It lies on a file system that may keep us waiting: it is only to be read by a helper process.
  [[nodiscard]] bool is_remote() const { return remote_; }
  [[nodiscard]] UniqueFd duplicate() const;
  /// Somebody besides its owner may write it; the owner's private group, which has the owner's number, is the owner.
  [[nodiscard]] bool others_may_write() const;
  /// Still as it was when it was opened, as far as the file system says.
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

/// Whose files are trusted with probes: root's, those of the process's own user, and those of whoever is root in the
/// process's user namespace (of a container without privilege), if nobody else may write them; and what is named here.
struct TrustedOwners {
  std::vector<uid_t> users;
  bool anybody = false;

  [[nodiscard]] bool have(uid_t user) const;
};

/// Why a process's file may not be probed, for people ("it belongs to user 1002"); none: it may be.
std::optional<std::string> reason_for_distrust(const Procfs& procfs, pid_t pid, const UntrustedFile& file,
                                               const TrustedOwners& trusted);

}  // namespace stalltrace
