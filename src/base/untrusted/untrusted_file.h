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
#include <set>
#include <string>

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
  kGone,    // it can't be opened, or the process maps another by now
  kOddKind,  // no regular file
  kRemote,  // on a file system that may keep us waiting
};

class UntrustedFile {
 public:
  /// The file that a process maps.
  static std::expected<UntrustedFile, OpenRefusal> open_mapped(const Procfs& procfs, Mounts& mounts, pid_t pid,
                                                               const MappedFile& file);
  /// The file at a path of this program's own; links are followed. Errors: not there, not readable, no regular file.
  static Result<UntrustedFile> open_path(const std::string& path);

  [[nodiscard]] int fd() const { return fd_.get(); }
  /// Leads to this very file for as long as this object lives.
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }
  [[nodiscard]] const FileIdentity& identity() const { return identity_; }
  [[nodiscard]] uid_t owner() const { return owner_; }
  /// Somebody besides its owner may write it; the owner's private group, which has the owner's number, is the owner.
  [[nodiscard]] bool others_may_write() const;
  /// Still as it was when it was opened, as far as the file system says.
  [[nodiscard]] bool is_unchanged() const;

 private:
  UntrustedFile(UniqueFd fd, const struct stat& info, std::string file);

  UniqueFd fd_;
  FileIdentity identity_;
  uid_t owner_ = 0;
  gid_t group_ = 0;
  mode_t mode_ = 0;
};

/// Whose files are trusted with probes: root's, those of the process's own user, and those of whoever is root in the
/// process's user namespace (of a container without privilege), if nobody else may write them; and what is named here.
struct TrustedOwners {
  std::set<uid_t> users;
  bool anybody = false;
};

/// Why a process's file may not be probed, for people ("it belongs to user 1002"); none: it may be.
std::optional<std::string> reason_for_distrust(const Procfs& procfs, pid_t pid, const UntrustedFile& file,
                                               const TrustedOwners& trusted);

}  // namespace stalltrace
