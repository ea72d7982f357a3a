// SPDX-License-Identifier: Apache-2.0
// Finds the job: processes that map a collective library, whatever its path, now or later. Probes each file once. One
// thread.
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
#include "capture/discover/files/library_files.h"
#include "capture/kernel/bpf_programs.h"
#include "model/events.h"

namespace stalltrace::capture {

class JobDiscovery {
 public:
  struct Scope {
    uint64_t only_netns = 0;   // inode number; 0: all
    bool only_listed = false;  // only processes for which BpfPrograms::is_listed is true
  };
  /// `mpi_world`: the process's handle of MPI_COMM_WORLD, see mpi_world.h.
  using JobFound = std::function<void(pid_t pid, Library library, uint64_t mpi_world)>;
  /// A process of a job is gone, or its number is another's by now: nothing more comes of it.
  using JobGone = std::function<void(pid_t pid)>;
  using Note = std::function<void(const std::string& text)>;

  /// All references must outlive the object. `job_found` is called once for each process, before its probes can fire;
  /// `note` gets what could not be probed, with the reason.
  JobDiscovery(BpfPrograms& kernel, const Procfs& procfs, Scope scope, TrustedOwners trusted, JobFound job_found,
               JobGone job_gone, Note note);

  /// Call it first: it starts the child processes that read files while this process is small.
  void start() { files_.start(); }
  /// With only_listed: puts processes and all their descendants in scope; the kernel side lists later ones. Errors: no
  /// such process.
  Status list(std::span<const int32_t> pids);
  /// Probes a library's file before any process maps it, so that a job's first call is always seen: attaching takes the
  /// kernel about 20 ms (a grace period), and a quick start can be faster. Errors: not readable, not ELF, nothing to
  /// probe in it.
  Status attach_library(const std::string& path);
  /// The same for collective libraries in the usual folders; finding none is not an error.
  void attach_usual_libraries();
  enum class Again {
    kNone,
    kOthers,  // processes that were not jobs when they were first read
    kAll,     // jobs too, since they may have loaded a library that was not reported
  };
  /// Looks at every process of the host that it has not seen, and again at some of the others.
  void scan(Again again);
  /// A process has mapped a file executable.
  void on_mapping(pid_t pid, const MappedFile& file);
  /// A process made a traced call before its mappings were seen (a fork).
  void on_call(pid_t pid);
  void on_exit(pid_t pid);

  /// Continues with files that take time to read (not owned by root, or remote). Never waits.
  void advance();
  /// The same, but waits up to one second for files of this host.
  void wait_for_files();
  /// Readable when advance() may have something to do.
  [[nodiscard]] std::vector<int> descriptors() const { return files_.descriptors(); }

  [[nodiscard]] size_t libraries() const { return attached_; }
  /// Libraries that were left out: counts by reason.
  [[nodiscard]] const std::map<std::string, uint64_t>& left_out() const { return files_.left_out(); }

 private:
  using Found = LibraryFiles::Found;
  struct Candidate {
    Found found;
    MappedFile mapping;
  };

  [[nodiscard]] bool in_scope(pid_t pid) const;
  /// True for a child of a job that only has its parent's mappings, such as a data loader. It counts as a job once it
  /// makes a call.
  [[nodiscard]] bool only_inherits(pid_t pid) const;
  bool add_job(pid_t pid);
  void find_gone(const std::map<pid_t, uint64_t>& now);
  /// `pid`: the process that maps the file; 0: none does.
  void attach(const Found& found, const std::string& shown_path, pid_t pid);
  void consider(pid_t pid, bool certainly_job);
  [[nodiscard]] uint64_t mpi_world_of(pid_t pid, std::span<const Candidate> candidates, bool maps_mpi) const;

  BpfPrograms& kernel_;
  const Procfs& procfs_;
  Scope scope_;
  JobFound job_found_;
  JobGone job_gone_;
  Note note_;
  LibraryFiles files_;
  std::map<pid_t, uint64_t> jobs_;     // pid → start time, 0: it was gone when it was found
  std::map<pid_t, uint64_t> scanned_;  // pid → start time, to detect a reused pid
  std::map<pid_t, int64_t> again_;     // processes to be considered again, and when (CLOCK_MONOTONIC)
  size_t attached_ = 0;
};

}  // namespace stalltrace::capture
