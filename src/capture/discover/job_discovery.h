// SPDX-License-Identifier: Apache-2.0
// Finds the job: processes that map a collective library, wherever it lives, now or later. Probes each file once.
// One thread.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/process/procfs.h"
#include "capture/discover/elf_symbols.h"
#include "capture/kernel/kernel.h"

namespace stalltrace::capture {

class JobDiscovery {
 public:
  struct Scope {
    uint64_t only_netns = 0;   // inode number; 0: all
    bool only_listed = false;  // only what BpfPrograms::is_listed
  };
  using JobFound = std::function<void(pid_t pid, Library library)>;
  using Note = std::function<void(const std::string& text)>;

  /// References outlive the object. `job_found` is called once a process, before its probes can fire; `note` is called
  /// with what could not be probed and why.
  JobDiscovery(BpfPrograms& kernel, const Procfs& procfs, Scope scope, JobFound job_found, Note note);

  /// With only_listed: puts processes and all their descendants in scope; those to come are listed by the kernel side.
  /// Errors: no such process.
  Status list(std::span<const int32_t> pids);
  /// Probes a library's file before any process maps it, so that a job's first call is seen however soon it comes: to
  /// attach takes the kernel some 20 ms (a grace period), which a quick start can win. Errors: not readable, not
  /// ELF, nothing to probe in it.
  Status attach_library(const std::string& path);
  /// The same for the collective libraries in the usual places; none is no error.
  void attach_usual_libraries();
  enum class Again {
    kNone,
    kOthers,  // those that were no job when it did
    kAll,     // jobs too: a library that one of them has loaded since was not reported
  };
  /// Looks at every process of the host that it has not seen, and again at some that it has.
  void scan(Again again);
  /// A process has mapped a file executable.
  void on_mapping(pid_t pid, const MappedFile& file);
  /// A process made a traced call before its mappings were seen (a fork).
  void on_call(pid_t pid);
  void on_exit(pid_t pid);

  [[nodiscard]] size_t libraries() const { return attached_; }

 private:
  struct File {
    FileSymbols symbols;
    uint64_t inode = 0;
    bool attached = false;
  };
  /// Device, inode, size, time of last change: an inode number alone is used again after a deletion.
  using FileKey = std::tuple<uint64_t, uint64_t, int64_t, int64_t>;

  [[nodiscard]] bool in_scope(pid_t pid) const;
  /// Whether the file was found to be of no interest a moment ago.
  [[nodiscard]] bool was_dismissed(const MappedFile& file);
  /// The file at a path of this program's own, read once.
  File* inspect_path(const std::string& path);
  /// The file's symbols, read once. Null when it can't be opened (it vanished) or is of no interest.
  File* inspect(pid_t pid, const MappedFile& file, std::string& host_path);
  /// A job's child that only has its parent's mappings: a data loader, a helper. It is a job when it makes a call.
  [[nodiscard]] bool only_inherits(pid_t pid) const;
  void forget_files();
  void attach(File& file, const std::string& host_path, const std::string& shown_path);
  void consider(pid_t pid, bool certainly_job);

  BpfPrograms& kernel_;
  const Procfs& procfs_;
  Scope scope_;
  JobFound job_found_;
  Note note_;
  std::map<FileKey, File> files_;  // what is not probed is forgotten when there is much of it
  /// Mapped files of no interest: device (two), inode, path, as mappings have them. Only those of the last seconds, in
  /// which the ranks of a job map the same hundreds of files: the file behind such a name may change.
  std::set<std::tuple<uint32_t, uint32_t, uint64_t, std::string>> dismissed_;
  int64_t dismissed_since_ns_ = 0;  // CLOCK_MONOTONIC
  std::set<pid_t> jobs_;
  std::map<pid_t, uint64_t> scanned_;  // pid → start time, so that a reused number is looked at again
  size_t attached_ = 0;
};

}  // namespace stalltrace::capture
