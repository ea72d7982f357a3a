// SPDX-License-Identifier: Apache-2.0
// The files that processes map, each read once: which can be probed, and which of those may be. Any of them may be
// hostile. One thread.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/process/procfs.h"
#include "base/untrusted/mounts.h"
#include "base/untrusted/untrusted_file.h"
#include "capture/discover/elf_symbols.h"
#include "capture/discover/files/file_key.h"
#include "capture/discover/files/left_out.h"
#include "capture/discover/files/library_reader.h"
#include "capture/discover/files/mapping_tables.h"
#include "capture/discover/files/postponed_files.h"
#include "capture/discover/files/probe_shares.h"

namespace stalltrace::capture {

class LibraryFiles {
 public:
  struct File {
    FileSymbols symbols;
    bool attached = false;
    int failures = 0;             // attempts to attach probes in vain
    int64_t attach_again_ns = 0;  // not before (CLOCK_MONOTONIC)
  };
  /// A file of interest, with a descriptor of the very file that its symbols come from.
  struct Found {
    File* file;
    std::shared_ptr<const UntrustedFile> opened;
  };
  using Ready = std::function<void(pid_t pid, const MappedFile& mapping)>;

  /// `procfs` must outlive the object. `note` gets what is left out, with the reason, a bounded number of times.
  LibraryFiles(const Procfs& procfs, TrustedOwners trusted, LeftOut::Note note)
      : procfs_(procfs),
        mounts_(procfs),
        tables_(procfs),
        trusted_(std::move(trusted)),
        left_out_(std::move(note)),
        here_(procfs, mounts_, LibraryReader::FileSystems::kThisHost),
        remote_(procfs, mounts_, LibraryReader::FileSystems::kRemote),
        shares_(procfs) {}

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
  /// A file that no process has mapped yet, if it may be probed all the same: on this host, root's or a trusted
  /// owner's, and no other user may write it. No other is read.
  std::optional<Found> inspect_trusted_path(const std::string& path);
  /// Whether the file may be probed because this process maps it. Refusals are counted and reported.
  bool may_be_probed(pid_t pid, const MappedFile& mapping, const Found& found);
  /// Whether a path leads only through file systems of this host.
  bool is_local_path(const std::string& path) { return mounts_.is_local_path(path); }

  /// Called before an attempt to attach probes; false if it must not be made now.
  bool begin_attach(const Found& found);
  /// The attempt failed: the next is made later, and later each time.
  void set_refused(const Found& found, const std::string& shown_path, const std::string& why);
  /// The file is probed, because this process maps it (0: none does). `detach` undoes it.
  void set_attached(const Found& found, pid_t pid, ProbeShares::Detach detach);

  /// Names the mappings that are to be inspected again: their files have been read, or are no longer left alone. Never
  /// waits.
  void advance(const Ready& ready);
  /// The same, but waits `here_ns` for files of this host and `remote_ns` for those of others.
  void wait_for_files(const Ready& ready, int64_t here_ns, int64_t remote_ns);
  /// Mappings whose files have not been read yet.
  [[nodiscard]] size_t unread() const { return waiting_.size() + postponed_.size(); }
  [[nodiscard]] std::vector<int> descriptors() const { return {here_.descriptor(), remote_.descriptor()}; }

  /// What processes map, with the limit on how often that is read.
  [[nodiscard]] MappingTables& tables() { return tables_; }
  /// Drops unneeded files when there are many.
  void forget();
  /// Libraries that were left out: counts by reason ("library:not_trusted", "library:not_read", "library:too_many",
  /// "library:not_probed").
  [[nodiscard]] const std::map<std::string, uint64_t>& left_out() const { return left_out_.counts(); }

 private:
  /// A file on another host that was read.
  struct RemoteFile {
    FileIdentity identity;
    std::shared_ptr<const UntrustedFile> opened;  // null: of no interest
    int64_t read_ns = 0;                          // CLOCK_MONOTONIC
  };
  using Waiting = std::map<FileKey, std::vector<LibraryReader::Request>>;

  [[nodiscard]] bool was_dismissed(const FileKey& key);
  [[nodiscard]] bool has_share(uid_t owner) const { return owner != 0 && !trusted_.have(owner); }
  FileKey key_of(pid_t pid, const MappedFile& mapping);
  std::expected<UntrustedFile, OpenRefusal> open(const FileKey& key, pid_t pid, MappedFile& mapping);
  std::optional<Found> inspect_remote(pid_t pid, const MappedFile& mapping, const FileKey& key);
  Result<Found> read(UntrustedFile opened);
  void ask(LibraryReader& reader, pid_t pid, const MappedFile& mapping, const FileKey& key);
  void postpone(LibraryReader::Request request, int64_t until_ns);
  std::vector<LibraryReader::Request> take_waiting(const FileKey& key);
  void give_up(const LibraryReader::Answer& answer, bool remote);
  void store(LibraryReader::Answer answer, bool remote);
  void advance(LibraryReader& reader, bool remote, const Ready& ready);

  const Procfs& procfs_;
  Mounts mounts_;
  MappingTables tables_;
  TrustedOwners trusted_;
  LeftOut left_out_;
  std::map<FileIdentity, File> files_;
  /// Mapped files of no interest, by user: only those of the last seconds, in which the ranks of a job map the same
  /// hundreds of files. The file behind such a name may change.
  std::set<FileKey> dismissed_;
  std::map<pid_t, uid_t> users_;    // over the same seconds
  int64_t dismissed_since_ns_ = 0;  // CLOCK_MONOTONIC
  Waiting waiting_;
  std::map<uid_t, size_t> waiting_of_;  // mappings per user
  std::map<FileKey, RemoteFile> remote_files_;
  PostponedFiles postponed_;
  LibraryReader here_;
  LibraryReader remote_;
  ProbeShares shares_;
};

}  // namespace stalltrace::capture
