// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/job_discovery.h"

#include <dirent.h>
#include <glob.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "capture/discover/mpi_world.h"
#include "capture/discover/sharing_user.h"
#include "model/events/loss_sources.h"

namespace stalltrace::capture {
namespace {

/// Where packages, vendors' installers, wheels and conda put collective libraries. Home folders are left out: they
/// belong to users, and are often on a server.
constexpr std::array kUsualLibraries{
    "/usr/lib/libgloo.so.*",
    "/usr/lib/*/libgloo.so.*",
    "/usr/*/python3*/*-packages/torch/lib/libtorch_cpu.so",
    "/usr/local/lib/python3*/*-packages/torch/lib/libtorch_cpu.so",
    "/opt/*/lib/python3*/site-packages/torch/lib/libtorch_cpu.so",
    "/usr/lib/*/libmpi.so.*",
    "/usr/lib/*/libmpich.so.*",
    "/usr/lib64/openmpi/lib/libmpi.so.*",
    "/usr/lib64/mpich/lib/libmpi.so.*",
    "/usr/local/lib/libmpi.so.*",
    "/opt/*/lib/libmpi.so.*",
    "/usr/lib/*/lib[nr]ccl.so.*",
    "/usr/lib64/lib[nr]ccl.so.*",
    "/usr/local/lib/lib[nr]ccl.so.*",
    "/usr/local/cuda*/lib*/libnccl.so.*",
    "/usr/local/nccl*/lib/libnccl.so.*",
    "/opt/rocm*/lib/librccl.so.*",
    "/opt/*/lib/libnccl.so.*",
    "/usr/*/python3*/*-packages/nvidia/nccl/lib/libnccl.so.*",
    "/usr/local/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.*",
    "/opt/*/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.*",
};

/// How long a process is assumed to be the same user's.
constexpr int64_t kUsersNs = 2 * kNsPerSecond;
constexpr size_t kMostUsersKnown = 65'536;
/// Every fifth scan reads the start times of all processes; the others only of new ones and of jobs, since new mappings
/// are watched.
constexpr uint64_t kScansOfTheKnown = 5;

/// Such as a set-user-ID program: it acts with another user's rights than those of who started it, for a moment.
bool changes_rights(const Procfs& procfs, pid_t pid) {
  const std::string status = read_file(procfs.path(pid, "status"), 8192).value_or("");
  for (const std::string_view line : split(status, '\n')) {
    if (line.starts_with("Uid:")) {  // real, effective, saved, of file systems
      const auto numbers = split(line, '\t');
      return numbers.size() < 3 || numbers[1] != numbers[2];
    }
  }
  return true;
}

/// RCCL exports NCCL's names; only its file name distinguishes it.
Library library_of(const std::string& path) {
  return path.find("librccl") != std::string::npos ? Library::kRccl : Library::kNccl;
}

/// The files that match a pattern, without accessing remote file systems, where an access may hang.
std::vector<std::string> local_paths(const char* pattern, LibraryFiles& files) {
  static thread_local LibraryFiles* looking = nullptr;  // glob's functions get no context
  looking = &files;
  const auto look = [](const char* path, struct stat* info, bool link) {
    if (!looking->is_local_path(path)) {
      errno = ENOENT;
      return -1;
    }
    return link ? ::lstat(path, info) : ::stat(path, info);
  };
  glob_t paths{};
  paths.gl_opendir = [](const char* path) -> void* { return looking->is_local_path(path) ? ::opendir(path) : nullptr; };
  paths.gl_readdir = [](void* folder) { return ::readdir(static_cast<DIR*>(folder)); };
  paths.gl_closedir = [](void* folder) { ::closedir(static_cast<DIR*>(folder)); };
  static const auto look_at = look;
  paths.gl_stat = [](const char* path, struct stat* info) { return look_at(path, info, false); };
  paths.gl_lstat = [](const char* path, struct stat* info) { return look_at(path, info, true); };
  std::vector<std::string> result;
  if (::glob(pattern, GLOB_NOSORT | GLOB_ALTDIRFUNC, nullptr, &paths) == 0) {
    result.assign(paths.gl_pathv, paths.gl_pathv + paths.gl_pathc);
  }
  ::globfree(&paths);
  return result;
}

}  // namespace

JobDiscovery::JobDiscovery(BpfPrograms* kernel, const Procfs& procfs, Scope scope, TrustedOwners trusted,
                           JobFound job_found, JobsGone jobs_gone, Note note)
    : kernel_(kernel),
      procfs_(procfs),
      scope_(scope),
      job_found_(std::move(job_found)),
      jobs_gone_(std::move(jobs_gone)),
      note_(std::move(note)),
      files_(procfs, std::move(trusted), [this](const std::string& text) { note_(text); }) {}

bool JobDiscovery::in_scope(pid_t pid) const {
  if (pid == ::getpid() || (scope_.only_listed && !kernel_->is_listed(pid))) {
    return false;
  }
  return scope_.only_netns == 0 || procfs_.netns(pid) == scope_.only_netns;
}

/// A second walk that finds nothing new proves that no child was missed: the kernel side lists later children.
Status JobDiscovery::list(std::span<const int32_t> pids) {
  for (const int32_t pid : pids) {
    if (!procfs_.exists(pid)) {
      return fail("no process " + std::to_string(pid), "name a running process with --pid", ErrorKind::kNotFound);
    }
    ST_TRY(kernel_->list_process(pid));
  }
  for (bool found = !pids.empty(); found;) {
    found = false;
    for (const pid_t pid : procfs_.pids()) {
      if (!kernel_->is_listed(pid) && kernel_->is_listed(procfs_.parent(pid))) {
        ST_TRY(kernel_->list_process(pid));
        found = true;
      }
    }
  }
  return {};
}

Status JobDiscovery::attach_library(const std::string& path) {
  ST_ASSIGN(const Found found, files_.inspect_path(path));
  if (found.file->symbols.points.empty()) {
    return fail(path + " defines no call of a collective library", "name a libnccl.so, librccl.so or libmpi.so",
                ErrorKind::kUsage);
  }
  attach(found, path, 0);
  return {};
}

void JobDiscovery::attach_usual_libraries() {
  for (const char* pattern : kUsualLibraries) {
    for (const std::string& path : local_paths(pattern, files_)) {
      const auto found = files_.inspect_trusted_path(path);
      if (found && found->file->symbols.has_collectives) {
        attach(*found, path, 0);
      }
    }
  }
}

void JobDiscovery::attach(const Found& found, const std::string& shown_path, pid_t pid) {
  const LibraryFiles::File& file = *found.file;
  if (kernel_ == nullptr || file.attached || !file.symbols.can_be_probed() || !files_.begin_attach(found)) {
    return;
  }
  const auto changed = [&] {
    return !found.opened->is_unchanged() ||
           (!found.opened->is_remote() && !has_same_code(found.opened->fd(), file.symbols));
  };
  // One kind of probes for a file: an interpreter that links MPI statically has no exceptions (docs/recording.md).
  const auto probes = file.symbols.marker ? kernel_->attach_marker(found.opened->path(), *file.symbols.marker)
                      : !file.symbols.points.empty()
                          ? kernel_->attach_file(found.opened->path(), file.symbols.points)
                          : kernel_->attach_python(found.opened->path(), file.symbols.python);
  if (!probes) {
    files_.set_refused(found, shown_path,
                       probes.error().what + (probes.error().remedy.empty() ? "" : "; " + probes.error().remedy));
    return;
  }
  if (changed()) {  // the probes' offsets no longer match
    kernel_->detach(*probes);
    files_.set_refused(found, shown_path, "it is being changed");
    return;
  }
  const size_t libraries = file.symbols.marker || file.symbols.points.empty() ? 0 : 1;
  files_.set_attached(found, pid, [this, set = *probes, libraries] {
    kernel_->detach(set);
    attached_ -= libraries;
  });
  attached_ += libraries;
}

uint64_t JobDiscovery::mpi_world_of(pid_t pid, std::span<const Candidate> candidates, bool maps_mpi) const {
  const std::string program = procfs_.executable(pid);
  uint64_t in_library = 0;
  for (const auto& [found, mapping] : candidates) {
    if (!found.file->symbols.mpi_world) {
      continue;
    }
    const uint64_t address = found.file->symbols.mpi_world->address_in(mapping);
    if (address != 0 && mapping.path == program) {
      return address;  // the linker's copy in the program is the one that all libraries use
    }
    in_library = in_library ? in_library : address;
  }
  return in_library || !maps_mpi ? in_library : kMpichWorld;
}

std::optional<uint32_t> JobDiscovery::user_of(pid_t pid) {
  if (const int64_t now_ns = monotonic_now_ns();
      now_ns - users_since_ns_ >= kUsersNs || users_.size() > kMostUsersKnown) {
    users_.clear();
    users_since_ns_ = now_ns;
  }
  const uint64_t start_ticks = procfs_.start_ticks(pid);
  const auto known = users_.find(pid);
  if (known != users_.end() && known->second.start_ticks == start_ticks) {
    return known->second.user;
  }
  const auto user = sharing_user(procfs_, pid);
  if (user && start_ticks != 0 && !changes_rights(procfs_, pid)) {
    users_.insert_or_assign(pid, KnownUser{.user = *user, .start_ticks = start_ticks});
  }
  return user;
}

bool JobDiscovery::add_job(pid_t pid) { return jobs_.emplace(pid, procfs_.start_ticks(pid)).second; }

/// One that is refused is reported again, until it is followed or ends.
bool JobDiscovery::report_job(pid_t pid, Library library, uint64_t mpi_world) {
  if (job_found_(pid, library, mpi_world)) {
    refused_.erase(pid);
    return true;
  }
  full_.insert(sharing_user(procfs_, pid).value_or(kUnknownUser));  // by now, as for the share
  refused_.insert_or_assign(pid, Refused{.library = library, .mpi_world = mpi_world});
  return false;
}

/// The record of an end may be lost, and the number be given to another process: that one inherits nothing.
void JobDiscovery::find_gone(const std::map<pid_t, uint64_t>& now) {
  std::vector<pid_t> gone;
  for (const auto& [pid, start] : jobs_) {
    const auto there = now.find(pid);
    const bool another = there != now.end() && start != 0 && there->second != start;
    if (another || (there == now.end() && ::kill(pid, 0) != 0 && errno == ESRCH)) {
      gone.push_back(pid);
    }
  }
  if (!gone.empty()) {
    jobs_gone_(gone);
  }
}

void JobDiscovery::consider(pid_t pid, bool certainly_job) {
  again_.erase(pid);
  if (const int64_t again_ns = files_.tables().again_ns(pid); !certainly_job && again_ns > monotonic_now_ns()) {
    again_.emplace(pid, again_ns);
    return;
  }
  const auto mappings = files_.tables().read(pid);
  if (!mappings) {  // ended, or another user's process without CAP_SYS_PTRACE
    if (certainly_job && add_job(pid)) {
      if (procfs_.exists(pid)) {
        note_("process " + std::to_string(pid) + " can't be looked into, its rank stays unknown: " +
              mappings.error().what + "; run as root, or grant CAP_SYS_PTRACE");
      }
      report_job(pid, Library::kNccl, 0);  // it made a call: report it even if it is short-lived
    }
    return;
  }
  std::vector<Candidate> candidates;
  bool is_job = certainly_job;
  bool maps_mpi = false;
  Library library = Library::kNccl;
  for (const MappedFile& mapping : **mappings) {
    maps_mpi = maps_mpi || mapping.path.find("/libmpi") != std::string::npos;
    auto found = files_.inspect(pid, mapping);
    if (!found) {
      continue;
    }
    if (found->file->symbols.has_collectives && files_.may_be_probed(pid, mapping, *found)) {
      is_job = true;
      library = library_of(mapping.path);
    }
    candidates.push_back({std::move(*found), mapping});
  }
  if (!is_job) {
    return;
  }
  if (add_job(pid)) {
    report_job(pid, library, mpi_world_of(pid, candidates, maps_mpi));
  }
  for (const auto& [found, mapping] : candidates) {
    if (found.file->symbols.can_be_probed() && files_.may_be_probed(pid, mapping, found)) {
      attach(found, mapping.path, pid);
    }
  }
}

void JobDiscovery::scan(Again again) {
  std::map<pid_t, uint64_t> now;
  const bool known_too = again != Again::kNone || scans_++ % kScansOfTheKnown == 0;
  for (const pid_t pid : procfs_.pids()) {
    const auto seen = scanned_.find(pid);
    const bool trust = !known_too && seen != scanned_.end() && !jobs_.contains(pid);
    if (const uint64_t start = trust ? seen->second : procfs_.start_ticks(pid); start != 0) {
      now.emplace(pid, start);
    }
  }
  find_gone(now);
  queue_.keep_only([&](pid_t pid) { return now.contains(pid); });
  full_.clear();
  for (const auto& [pid, start] : now) {
    const auto seen = scanned_.find(pid);
    const bool known = seen != scanned_.end() && seen->second == start;
    const bool look = !known || again == Again::kAll || (again == Again::kOthers && !jobs_.contains(pid));
    if ((look && in_scope(pid)) || refused_.contains(pid)) {
      add_to_queue(pid, false);
    }
  }
  scanned_ = std::move(now);
  files_.forget();
}

void JobDiscovery::add_to_queue(pid_t pid, bool also_heir) {
  if (const auto user = user_of(pid)) {
    queue_.add_process(pid, *user, also_heir);
  }
}

void JobDiscovery::examine(int64_t end_ns, Whose whose, const std::function<void()>& between) {
  int64_t now_ns = monotonic_now_ns();
  for (auto item = queue_.take(now_ns, whose); item;
       item = now_ns < end_ns ? queue_.take(now_ns, whose) : std::nullopt) {
    if (item->mapping) {
      look_at_mapping(item->pid, *item->mapping);
    } else if (const auto user = sharing_user(procfs_, item->pid); user && *user != item->user) {
      queue_.add_process(item->pid, *user, item->also_heir);  // in its own user's time
    } else {
      look_at_process(*item);
    }
    queue_.was_examined(item->user, now_ns, monotonic_now_ns());
    between();
    now_ns = monotonic_now_ns();
  }
}

/// Of a user who has no room for one refused process, the others are not tried before the next scan: there may be
/// thousands.
void JobDiscovery::look_at_process(const DiscoveryQueue::Item& item) {
  const pid_t pid = item.pid;
  if (const auto found = refused_.find(pid); found != refused_.end()) {
    const Refused refused = found->second;
    const auto job = jobs_.find(pid);
    const bool is_there = job != jobs_.end() && job->second != 0 && procfs_.start_ticks(pid) == job->second;
    if (!is_there || full_.contains(item.user) || !report_job(pid, refused.library, refused.mpi_world)) {
      return;
    }
  }
  if (item.also_heir || jobs_.contains(pid) || !only_inherits(pid)) {
    consider(pid, false);
  }
}

bool JobDiscovery::only_inherits(pid_t pid) const {
  return procfs_.is_fork(pid) && jobs_.contains(procfs_.parent(pid));
}

void JobDiscovery::on_mapping(pid_t pid, const MappedFile& file) {
  if (!in_scope(pid)) {
    return;
  }
  if (const auto user = user_of(pid)) {
    queue_.add_mapping(pid, *user, file);
  }
}

void JobDiscovery::on_read_mapping(pid_t pid, const MappedFile& file) {
  if (const auto user = user_of(pid)) {
    queue_.add_read_mapping(pid, *user, file);
  }
}

void JobDiscovery::look_at_mapping(pid_t pid, const MappedFile& file) {
  const auto found = files_.inspect(pid, file);
  if (!found) {
    return;
  }
  if (!jobs_.contains(pid)) {
    if (found->file->symbols.has_collectives && files_.may_be_probed(pid, file, *found)) {
      consider(pid, false);
    }
  } else if (found->file->symbols.can_be_probed() && files_.may_be_probed(pid, file, *found)) {
    attach(*found, file.path, pid);
  }
}

void JobDiscovery::advance() {
  files_.advance([this](pid_t pid, const MappedFile& file) { on_read_mapping(pid, file); });
  const int64_t now_ns = monotonic_now_ns();
  std::erase_if(again_, [&](const auto& entry) {
    if (entry.second > now_ns) {
      return false;
    }
    add_to_queue(entry.first, true);
    return true;
  });
}

void JobDiscovery::wait_for_files() {
  files_.wait_for_files(
      [this](pid_t pid, const MappedFile& file) {
        on_read_mapping(pid, file);
        examine(0, Whose::kAll, [] {});  // one: it may ask for other files
      },
      kNsPerSecond, 0);
}

void JobDiscovery::on_call(pid_t pid) {
  if (const auto known = jobs_.find(pid); known != jobs_.end() && known->second != 0) {
    const uint64_t start = procfs_.start_ticks(pid);
    if (start != 0 && start != known->second) {
      jobs_gone_({&pid, 1});  // the kernel side has met a new process of that number
    }
  }
  if (!jobs_.contains(pid)) {
    const int64_t began_ns = monotonic_now_ns();
    const uint32_t user = user_of(pid).value_or(kUnknownUser);
    consider(pid, true);
    queue_.was_examined(user, began_ns, monotonic_now_ns());
  }
}

void JobDiscovery::on_exit(pid_t pid) {
  jobs_.erase(pid);
  refused_.erase(pid);
  users_.erase(pid);
  scanned_.erase(pid);
  again_.erase(pid);
}

}  // namespace stalltrace::capture
