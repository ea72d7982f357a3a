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
#include "capture/discover/discovery_queue.h"
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
  /// `mpi_world`: the process's handle of MPI_COMM_WORLD, see mpi_world.h. False where the process can't be followed
  /// yet, since its user has too many: it is called again after a scan.
  using JobFound = std::function<bool(pid_t pid, Library library, uint64_t mpi_world)>;
  /// Processes of jobs are gone, or their numbers are others' by now: nothing more comes of them.
  using JobsGone = std::function<void(std::span<const pid_t> pids)>;
  using Note = std::function<void(const std::string& text)>;

  /// All references must outlive the object, and so must `kernel`: null where nothing is probed, and none is listed.
  /// `job_found` is called for each process before its probes can fire, until it is true; `note` gets what could not be
  /// probed, with the reason.
  JobDiscovery(BpfPrograms* kernel, const Procfs& procfs, Scope scope, TrustedOwners trusted, JobFound job_found,
               JobsGone jobs_gone, Note note);

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
  /// Lists the processes of the host. examine() then looks at those that it has not seen, and again at some of the
  /// others.
  void scan(Again again);
  /// A process has mapped a file executable: examine() looks at it.
  void on_mapping(pid_t pid, const MappedFile& file);
  /// A process made a traced call before its mappings were seen (a fork).
  void on_call(pid_t pid);
  void on_exit(pid_t pid);

  /// Continues with files that take time to read (not owned by root, or remote). Never waits.
  void advance();
  using Whose = DiscoveryQueue::Whose;
  /// Looks at processes and mappings that wait, until `end_ns` (CLOCK_MONOTONIC), at one at least: users take turns
  /// (discovery_queue.h). `between` is called after each.
  void examine(int64_t end_ns, Whose whose, const std::function<void()>& between);
  /// Whether nothing waits.
  [[nodiscard]] bool is_idle() const { return queue_.is_empty(); }
  /// advance() and examine() for files of this host, for up to one second.
  void wait_for_files();
  /// Readable when advance() may have something to do.
  [[nodiscard]] std::vector<int> descriptors() const { return files_.descriptors(); }

  [[nodiscard]] size_t libraries() const { return attached_; }
  /// Libraries that were left out: counts by reason.
  [[nodiscard]] const std::map<std::string, uint64_t>& left_out() const { return files_.left_out(); }
  /// Mappings that were not looked at since too many of their users waited, by user. The processes are looked at.
  [[nodiscard]] const std::map<uint32_t, uint64_t>& lost_mappings() const { return queue_.lost(); }

 private:
  using Found = LibraryFiles::Found;
  struct Candidate {
    Found found;
    MappedFile mapping;
  };
  struct Refused {
    Library library = Library::kNccl;
    uint64_t mpi_world = 0;
  };

  [[nodiscard]] bool in_scope(pid_t pid) const;
  /// True for a child of a job that only has its parent's mappings, such as a data loader. It counts as a job once it
  /// makes a call.
  [[nodiscard]] bool only_inherits(pid_t pid) const;
  /// None where it is gone. One answer for a process over some seconds, except while it changes its rights: for what
  /// waits. examine() asks again.
  std::optional<uint32_t> user_of(pid_t pid);
  bool add_job(pid_t pid);
  bool report_job(pid_t pid, Library library, uint64_t mpi_world);
  void add_to_queue(pid_t pid, bool also_heir);
  void on_read_mapping(pid_t pid, const MappedFile& file);
  void look_at_process(const DiscoveryQueue::Item& item);
  void look_at_mapping(pid_t pid, const MappedFile& file);
  void find_gone(const std::map<pid_t, uint64_t>& now);
  /// `pid`: the process that maps the file; 0: none does.
  void attach(const Found& found, const std::string& shown_path, pid_t pid);
  void consider(pid_t pid, bool certainly_job);
  [[nodiscard]] uint64_t mpi_world_of(pid_t pid, std::span<const Candidate> candidates, bool maps_mpi) const;

  struct KnownUser {
    uint32_t user = 0;
    uint64_t start_ticks = 0;
  };

  BpfPrograms* kernel_;
  const Procfs& procfs_;
  Scope scope_;
  JobFound job_found_;
  JobsGone jobs_gone_;
  Note note_;
  LibraryFiles files_;
  DiscoveryQueue queue_;
  std::map<pid_t, uint64_t> jobs_;    // pid → start time, 0: it was gone when it was found
  std::map<pid_t, Refused> refused_;  // of jobs_: job_found_ was false
  std::set<uint32_t> full_;           // users for whom job_found_ was false since the last scan
  uint64_t scans_ = 0;
  std::map<pid_t, uint64_t> scanned_;  // pid → start time, to detect a reused pid
  std::map<pid_t, int64_t> again_;     // processes to be considered again, and when (CLOCK_MONOTONIC)
  std::map<pid_t, KnownUser> users_;   // over some seconds
  int64_t users_since_ns_ = 0;         // CLOCK_MONOTONIC
  size_t attached_ = 0;
};

}  // namespace stalltrace::capture
