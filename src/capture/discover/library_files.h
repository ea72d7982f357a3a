// SPDX-License-Identifier: Apache-2.0
// The files that processes map, each read once: which of them can be probed, and which of those may be. Any of them may
// be a hostile user's. One thread.
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
  /// A file of interest, and a descriptor of this very file: its symbols are of no other.
  struct Found {
    File* file;
    std::shared_ptr<const UntrustedFile> opened;
  };
  using Ready = std::function<void(pid_t pid, const MappedFile& mapping)>;
  using Note = std::function<void(const std::string& text)>;

  /// `procfs` outlives it. `note` is called with what is left out and why, a bounded number of times.
  LibraryFiles(const Procfs& procfs, TrustedOwners trusted, Note note)
      : procfs_(procfs),
        mounts_(procfs),
        trusted_(std::move(trusted)),
        note_(std::move(note)),
        here_(procfs, mounts_, LibraryReader::Place::kThisHost),
        remote_(procfs, mounts_, LibraryReader::Place::kRemote) {}

  /// Starts the child processes now, so that the first file need not wait for that.
  void start() {
    here_.start();
    remote_.start();
  }
  /// A mapped file; nothing where it is of no interest, or can't be looked at. Root's own files of this host are read
  /// at once. Others are read by child processes: nothing yet, and advance() names the mapping when it is to be
  /// inspected again.
  std::optional<Found> inspect(pid_t pid, const MappedFile& mapping);
  /// A file that the administrator named. Errors: not there, not readable, not ELF.
  Result<Found> inspect_path(const std::string& path);
  /// Whether it may be probed because this process maps it. What may not is counted, and said.
  bool may_be_probed(pid_t pid, const MappedFile& mapping, const Found& found);
  /// It is probed from now on. A user may have so many: each takes the kernel its time, to begin and to end.
  void set_attached(const Found& found);
  /// Whether a file that no process has mapped yet may be probed: root's, on this host.
  bool may_be_probed(const std::string& path, const Found& found);
  /// Whether a path leads to this host's own file systems alone.
  bool is_local_path(const std::string& path) { return mounts_.is_local_path(path); }

  /// Names the mappings whose files have been read in the meantime. Never waits.
  void advance(const Ready& ready);
  /// The same, but waits for the files of this host, a second at most.
  void settle(const Ready& ready);
  [[nodiscard]] std::vector<int> descriptors() const { return {here_.descriptor(), remote_.descriptor()}; }

  /// Forgets files that nobody needs when there are many.
  void forget();
  /// Libraries that were left out, by reason: "library:not_trusted", "library:not_read", "library:too_many".
  [[nodiscard]] const std::map<std::string, uint64_t>& left_out() const { return left_out_; }

 private:
  /// As mappings have a file, by the user: no user's file passes for another's.
  using Mapping = std::tuple<uid_t, uint32_t, uint32_t, uint64_t, std::string>;
  /// A file on another host: read, or given up, some time ago.
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
  /// Mapped files of no interest, as mappings have them, by the user: only those of the last seconds, in which the
  /// ranks of a job map the same hundreds of files. The file behind such a name may change.
  std::set<Mapping> dismissed_;
  std::map<pid_t, uid_t> users_;    // of the same seconds
  int64_t dismissed_since_ns_ = 0;  // CLOCK_MONOTONIC
  Waiting waiting_;
  std::map<uid_t, size_t> waiting_of_;  // how many mappings of each user
  std::map<Mapping, RemoteFile> remote_files_;
  std::map<std::pair<uint32_t, uint32_t>, int64_t> silent_;  // devices that did not answer, and when: CLOCK_MONOTONIC
  LibraryReader here_;
  LibraryReader remote_;
  std::map<uid_t, size_t> attached_of_;  // by the files' owners
  std::set<std::string> reported_;
  std::map<std::string, uint64_t> left_out_;
};

}  // namespace stalltrace::capture
