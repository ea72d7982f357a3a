// SPDX-License-Identifier: Apache-2.0
// The files that processes map, each read once: which of them can be probed, and which of those may be. Any of them may
// be a hostile user's. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "base/process/procfs.h"
#include "base/untrusted/mounts.h"
#include "base/untrusted/untrusted_file.h"
#include "capture/discover/elf_symbols.h"

namespace stalltrace::capture {

class LibraryFiles {
 public:
  struct File {
    FileSymbols symbols;
    bool attached = false;
  };
  /// A file of interest, and a descriptor of this very file: its symbols are of no other.
  struct Found {
    File* file;
    UntrustedFile opened;
  };
  using Note = std::function<void(const std::string& text)>;

  /// `procfs` outlives it. `note` is called with what is left out and why, a bounded number of times.
  LibraryFiles(const Procfs& procfs, TrustedOwners trusted, Note note)
      : procfs_(procfs), mounts_(procfs), trusted_(std::move(trusted)), note_(std::move(note)) {}

  /// A mapped file; nothing where it is of no interest, or can't be looked at.
  std::optional<Found> inspect(pid_t pid, const MappedFile& mapping);
  /// A file that the administrator named. Errors: not there, not readable, not ELF.
  Result<Found> inspect_path(const std::string& path);
  /// Whether it may be probed because this process maps it. What may not is counted, and said.
  bool may_be_probed(pid_t pid, const MappedFile& mapping, const Found& found);
  /// Whether a file that no process has mapped yet may be probed: root's, on this host.
  bool may_be_probed(const std::string& path, const Found& found);
  /// Whether a path leads to this host's own file systems alone.
  bool is_local_path(const std::string& path) { return mounts_.is_local_path(path); }

  /// Forgets files that nobody needs when there are many.
  void forget();
  /// Libraries that were left out, by reason: "library:not_trusted", "library:remote", "library:damaged".
  [[nodiscard]] const std::map<std::string, uint64_t>& left_out() const { return left_out_; }

 private:
  [[nodiscard]] bool was_dismissed(pid_t pid, const MappedFile& mapping);
  Result<Found> known_or_read(UntrustedFile opened);
  void leave_out(const std::string& source, const std::string& what, const std::string& why);

  using Mapping = std::tuple<uid_t, uint32_t, uint32_t, uint64_t, std::string>;
  Mapping key_of(pid_t pid, const MappedFile& mapping);

  const Procfs& procfs_;
  Mounts mounts_;
  TrustedOwners trusted_;
  Note note_;
  std::map<FileIdentity, File> files_;
  /// Mapped files of no interest, as mappings have them, by the user: only those of the last seconds, in which the ranks
  /// of a job map the same hundreds of files. The file behind such a name may change.
  std::set<Mapping> dismissed_;
  std::map<pid_t, uid_t> users_;     // of the same seconds
  int64_t dismissed_since_ns_ = 0;  // CLOCK_MONOTONIC
  std::set<std::string> reported_;
  std::map<std::string, uint64_t> left_out_;
};

}  // namespace stalltrace::capture
