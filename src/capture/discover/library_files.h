// SPDX-License-Identifier: Apache-2.0
// The files that processes map, each read once: which can be probed, and which of those may be. Any of them may be
// hostile. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/process/procfs.h"
#include "base/untrusted/mounts.h"
#include "base/untrusted/untrusted_file.h"
#include "capture/discover/elf_symbols.h"
#include "capture/discover/library_reader.h"

namespace stalltrace::capture {

class LibraryFiles {
 public:
  struct File {
    FileSymbols symbols;
    bool attached = false;
  };
  /// A file of interest, with a descriptor of the very file that its symbols come from.
  struct Found {
    File* file;
    std::shared_ptr<const UntrustedFile> opened;
  };
  using Ready = std::function<void(pid_t pid, const MappedFile& mapping)>;
  using Note = std::function<void(const std::string& text)>;

  /// `procfs` must outlive the object. `note` gets what is left out, with the reason, a bounded number of times.
  LibraryFiles(const Procfs& procfs, TrustedOwners trusted, Note note)
      : procfs_(procfs),
        mounts_(procfs),
        trusted_(std::move(trusted)),
        note_(std::move(note)),
        here_(procfs, mounts_, LibraryReader::Place::kThisHost),
        remote_(procfs, mounts_, LibraryReader::Place::kRemote) {}

  /// Starts the child processes now, so that the first file need not wait for them.
  void start() {
    here_.start();
    remote_.start();
  }
  /// Inspects a mapped file; nullopt where it is of no interest or can't be opened. Root's own files of this host are
  /// read at once. Others are read by child processes: nullopt for now, and advance() names the mapping when it is to
  /// be inspected again.
  std::optional<Found> inspect(pid_t pid, const MappedFile& mapping);
  /// A file that the administrator named. Errors: not found, not readable, not ELF.
  Result<Found> inspect_path(const std::string& path);
  /// Whether the file may be probed because this process maps it. Refusals are counted and reported.
  bool may_be_probed(pid_t pid, const MappedFile& mapping, const Found& found);
  /// Records that the file is probed. The number per user is limited, since attaching and detaching take the kernel
  /// time.
  void set_attached(const Found& found);
  /// Whether a file that no process has mapped yet may be probed: root's files on this host only.
  bool may_be_probed(const std::string& path, const Found& found);
  /// Whether a path leads only through file systems of this host.
  bool is_local_path(const std::string& path) { return mounts_.is_local_path(path); }

  /// Names the mappings whose files have been read since the last call. Never waits.
  void advance(const Ready& ready);
  /// The same, but waits up to one second for files of this host.
  void settle(const Ready& ready);
  [[nodiscard]] std::vector<int> descriptors() const { return {here_.descriptor(), remote_.descriptor()}; }

  /// Drops unneeded files when there are many.
  void forget();
  /// Libraries that were left out: counts by reason ("library:not_trusted", "library:not_read", "library:too_many").
  [[nodiscard]] const std::map<std::string, uint64_t>& left_out() const { return left_out_; }

 private:
  /// A mapping's file, by user, so that no user's file can pass for another's.
  using Mapping = std::tuple<uid_t, uint32_t, uint32_t, uint64_t, std::string>;
  /// A file on another host that was read or given up.
  struct RemoteFile {
    FileIdentity identity;
    std::shared_ptr<const UntrustedFile> opened;
    int64_t read_ns = 0;  // CLOCK_MONOTONIC
  };
  using Waiting = std::map<Mapping, std::vector<LibraryReader::Request>>;

  [[nodiscard]] bool was_dismissed(const Mapping& key);
  std::optional<Found> inspect_remote(pid_t pid, const MappedFile& mapping, const Mapping& key);
  void ask(LibraryReader& reader, pid_t pid, const MappedFile& mapping, const Mapping& key);
  void take(LibraryReader::Answer answer, bool remote);
  void advance(LibraryReader& reader, bool remote, const Ready& ready);
  void leave_out(const std::string& source, const std::string& what, const std::string& why);

  Mapping key_of(pid_t pid, const MappedFile& mapping);

  const Procfs& procfs_;
  Mounts mounts_;
  TrustedOwners trusted_;
  Note note_;
  std::map<FileIdentity, File> files_;
  /// Mapped files of no interest, by user: only those of the last seconds, in which the ranks of a job map the same
  /// hundreds of files. The file behind such a name may change.
  std::set<Mapping> dismissed_;
  std::map<pid_t, uid_t> users_;    // over the same seconds
  int64_t dismissed_since_ns_ = 0;  // CLOCK_MONOTONIC
  Waiting waiting_;
  std::map<uid_t, size_t> waiting_of_;  // mappings per user
  std::map<Mapping, RemoteFile> remote_files_;
  std::map<std::pair<uint32_t, uint32_t>, int64_t> silent_;  // devices that did not answer, and when (CLOCK_MONOTONIC)
  LibraryReader here_;
  LibraryReader remote_;
  std::map<uid_t, size_t> attached_of_;  // by the files' owners
  std::set<std::string> reported_;
  std::map<std::string, uint64_t> left_out_;
};

}  // namespace stalltrace::capture
