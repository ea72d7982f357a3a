// SPDX-License-Identifier: Apache-2.0
// Finds the job: processes that map a collective library, wherever it lives, now or later. Probes each file once.
// One thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/process/procfs.h"
#include "base/untrusted/untrusted_file.h"
#include "capture/discover/library_files.h"
#include "capture/kernel/kernel.h"
#include "model/events.h"

namespace stalltrace::capture {

class JobDiscovery {
 public:
  struct Scope {
    uint64_t only_netns = 0;   // inode number; 0: all
    bool only_listed = false;  // only what BpfPrograms::is_listed
  };
  /// `mpi_world`: what the process passes for MPI_COMM_WORLD, see mpi_world.h.
  using JobFound = std::function<void(pid_t pid, Library library, uint64_t mpi_world)>;
  using Note = std::function<void(const std::string& text)>;

  /// References outlive the object. `job_found` is called once a process, before its probes can fire; `note` is called
  /// with what could not be probed and why.
  JobDiscovery(BpfPrograms& kernel, const Procfs& procfs, Scope scope, TrustedOwners trusted, JobFound job_found,
               Note note);

  /// To be called first: starts the child processes that read files, while this one is small.
  void start() { files_.start(); }
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

  /// Goes on with files that take their time to be read: not root's, or on other hosts. Never waits.
  void advance();
  /// The same, but waits for those of this host, a second at most.
  void settle();
  /// Readable when advance() may have something to do.
  [[nodiscard]] std::vector<int> descriptors() const { return files_.descriptors(); }

  [[nodiscard]] size_t libraries() const { return attached_; }
  /// Libraries that were left out, by reason.
  [[nodiscard]] const std::map<std::string, uint64_t>& left_out() const { return files_.left_out(); }

 private:
  using Found = LibraryFiles::Found;
  struct Candidate {
    Found found;
    MappedFile mapping;
  };

  [[nodiscard]] bool in_scope(pid_t pid) const;
  /// A job's child that only has its parent's mappings: a data loader, a helper. It is a job when it makes a call.
  [[nodiscard]] bool only_inherits(pid_t pid) const;
  void attach(const Found& found, const std::string& shown_path);
  void attach_usual_library(const std::string& path);
  void consider(pid_t pid, bool certainly_job);
  [[nodiscard]] uint64_t mpi_world_of(pid_t pid, std::span<const Candidate> candidates, bool maps_mpi) const;

  BpfPrograms& kernel_;
  const Procfs& procfs_;
  Scope scope_;
  JobFound job_found_;
  Note note_;
  LibraryFiles files_;
  std::set<pid_t> jobs_;
  std::map<pid_t, uint64_t> scanned_;  // pid → start time, so that a reused number is looked at again
  size_t attached_ = 0;
};

}  // namespace stalltrace::capture
