// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/job_discovery.h"

#include <glob.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "base/clock.h"

namespace stalltrace::capture {
namespace {

/// Where packages, vendors' installers, wheels and conda put collective libraries.
constexpr std::array kUsualLibraries{
    "/usr/lib/libgloo.so.*",
    "/usr/lib/*/libgloo.so.*",
    "/usr/*/python3*/*-packages/torch/lib/libtorch_cpu.so",
    "/usr/local/lib/python3*/*-packages/torch/lib/libtorch_cpu.so",
    "/opt/*/lib/python3*/site-packages/torch/lib/libtorch_cpu.so",
    "/home/*/*/lib/python3*/site-packages/torch/lib/libtorch_cpu.so",
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
    "/home/*/*/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.*",
};

/// So many files that processes map are remembered; reading one again costs some milliseconds at most.
constexpr size_t kMaxFiles = 4096;

/// What was read of a file is taken for what a mapping of the same name maps.
constexpr int64_t kDismissedNs = 2 * kNsPerSecond;

/// RCCL exports NCCL's names; only its file's name distinguishes it.
Library library_of(const std::string& path) {
  return path.find("librccl") != std::string::npos ? Library::kRccl : Library::kNccl;
}

}  // namespace

JobDiscovery::JobDiscovery(BpfPrograms& kernel, const Procfs& procfs, Scope scope, JobFound job_found, Note note)
    : kernel_(kernel), procfs_(procfs), scope_(scope), job_found_(std::move(job_found)), note_(std::move(note)) {}

bool JobDiscovery::in_scope(pid_t pid) const {
  if (pid == ::getpid() || (scope_.only_listed && !kernel_.is_listed(pid))) {
    return false;
  }
  return scope_.only_netns == 0 || procfs_.netns(pid) == scope_.only_netns;
}

JobDiscovery::File* JobDiscovery::inspect_path(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return nullptr;
  }
  // One file of an image has another device number in each container's overlay, and one inode below them all, which is
  // what the kernel probes: twice probed, every call would be reported twice.
  struct statfs system {};
  const bool overlay = ::statfs(path.c_str(), &system) == 0 && system.f_type == OVERLAYFS_SUPER_MAGIC;
  const FileKey key{overlay ? 0 : info.st_dev, info.st_ino, info.st_size,
                    info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec};
  const auto [found, fresh] = files_.try_emplace(key);
  File& known = found->second;
  if (fresh) {
    known.inode = info.st_ino;
    auto symbols = find_probe_points(path);
    if (!symbols && symbols.error().kind != ErrorKind::kCorrupt) {  // gone in the meantime: it may come again
      files_.erase(found);
      return nullptr;
    }
    if (symbols) {
      known.symbols = std::move(*symbols);
    }
  }
  return &known;
}

bool JobDiscovery::was_dismissed(const MappedFile& file) {
  const int64_t now_ns = monotonic_now_ns();
  if (now_ns - dismissed_since_ns_ >= kDismissedNs || dismissed_.size() > kMaxFiles) {
    dismissed_.clear();
    dismissed_since_ns_ = now_ns;
  }
  return dismissed_.contains({file.device_major, file.device_minor, file.inode, file.path});
}

JobDiscovery::File* JobDiscovery::inspect(pid_t pid, const MappedFile& file, std::string& host_path) {
  if (was_dismissed(file)) {
    return nullptr;
  }
  for (std::string& candidate : procfs_.host_paths(pid, file)) {
    File* known = inspect_path(candidate);
    if (!known || known->inode != file.inode) {
      continue;
    }
    if (!known->symbols.of_interest()) {
      dismissed_.emplace(file.device_major, file.device_minor, file.inode, file.path);
      return nullptr;
    }
    host_path = std::move(candidate);
    return known;
  }
  return nullptr;
}

/// A second walk that finds nothing new leaves no gap to the children that the kernel side lists.
Status JobDiscovery::list(std::span<const int32_t> pids) {
  for (const int32_t pid : pids) {
    if (!procfs_.exists(pid)) {
      return fail("no process " + std::to_string(pid), "name a running process with --pid", ErrorKind::kNotFound);
    }
    ST_TRY(kernel_.list_process(pid));
  }
  for (bool found = !pids.empty(); found;) {
    found = false;
    for (const pid_t pid : procfs_.pids()) {
      if (!kernel_.is_listed(pid) && kernel_.is_listed(procfs_.parent(pid))) {
        ST_TRY(kernel_.list_process(pid));
        found = true;
      }
    }
  }
  return {};
}

Status JobDiscovery::attach_library(const std::string& path) {
  ST_ASSIGN(const FileSymbols symbols, find_probe_points(path));
  if (symbols.points.empty()) {
    return fail(path + " defines no call of a collective library", "name a libnccl.so, librccl.so or libmpi.so",
                ErrorKind::kUsage);
  }
  if (File* file = inspect_path(path)) {
    attach(*file, path, path);
  }
  return {};
}

void JobDiscovery::attach_usual_libraries() {
  for (const char* pattern : kUsualLibraries) {
    glob_t paths{};
    if (::glob(pattern, GLOB_NOSORT, nullptr, &paths) == 0) {
      for (size_t i = 0; i < paths.gl_pathc; ++i) {
        File* file = inspect_path(paths.gl_pathv[i]);
        if (file && file->symbols.has_collectives) {
          attach(*file, paths.gl_pathv[i], paths.gl_pathv[i]);
        }
      }
    }
    ::globfree(&paths);
  }
}

void JobDiscovery::attach(File& file, const std::string& host_path, const std::string& shown_path) {
  if (file.attached) {
    return;
  }
  const Status status = file.symbols.marker ? kernel_.attach_marker(host_path, *file.symbols.marker)
                                            : kernel_.attach_file(host_path, file.symbols.points);
  if (!status) {
    note_("can't probe " + shown_path + ": " + status.error().what +
          (status.error().remedy.empty() ? "" : "; " + status.error().remedy));
    return;
  }
  file.attached = true;
  attached_ += !file.symbols.marker;
}

void JobDiscovery::consider(pid_t pid, bool certainly_job) {
  const auto mappings = procfs_.executable_mappings(pid);
  if (!mappings) {  // gone, or another user's without CAP_SYS_PTRACE
    if (certainly_job && jobs_.insert(pid).second) {
      if (procfs_.exists(pid)) {
        note_("process " + std::to_string(pid) + " can't be looked into, its rank stays unknown: " +
              mappings.error().what + "; run as root, or grant CAP_SYS_PTRACE");
      }
      job_found_(pid, Library::kNccl);  // it made a call: a short life is reported too
    }
    return;
  }
  struct Candidate {
    File* file;
    std::string host_path;
    std::string shown_path;
  };
  std::vector<Candidate> candidates;
  bool is_job = certainly_job;
  Library library = Library::kNccl;
  for (const MappedFile& mapping : *mappings) {
    std::string host_path;
    if (File* file = inspect(pid, mapping, host_path)) {
      candidates.push_back({file, std::move(host_path), mapping.path});
      if (file->symbols.has_collectives) {
        is_job = true;
        library = library_of(mapping.path);
      }
    }
  }
  if (!is_job) {
    return;
  }
  if (jobs_.insert(pid).second) {
    job_found_(pid, library);
  }
  for (Candidate& candidate : candidates) {
    attach(*candidate.file, candidate.host_path, candidate.shown_path);
  }
}

void JobDiscovery::scan(Again again) {
  std::map<pid_t, uint64_t> now;
  for (const pid_t pid : procfs_.pids()) {
    const uint64_t start = procfs_.start_ticks(pid);
    if (start == 0) {
      continue;
    }
    now.emplace(pid, start);
    const auto seen = scanned_.find(pid);
    const bool known = seen != scanned_.end() && seen->second == start;
    const bool look = !known || again == Again::kAll || (again == Again::kOthers && !jobs_.contains(pid));
    if (look && in_scope(pid) && !only_inherits(pid)) {
      consider(pid, false);
    }
  }
  scanned_ = std::move(now);
  forget_files();
}

bool JobDiscovery::only_inherits(pid_t pid) const {
  return procfs_.is_fork(pid) && jobs_.contains(procfs_.parent(pid));
}

void JobDiscovery::forget_files() {
  if (files_.size() > kMaxFiles) {
    std::erase_if(files_, [](const auto& entry) { return !entry.second.attached; });
  }
}

void JobDiscovery::on_mapping(pid_t pid, const MappedFile& file) {
  if (!in_scope(pid)) {
    return;
  }
  std::string host_path;
  File* known = inspect(pid, file, host_path);
  if (!known) {
    return;
  }
  if (jobs_.contains(pid)) {
    attach(*known, host_path, file.path);
  } else if (known->symbols.has_collectives) {
    consider(pid, false);
  }
}

void JobDiscovery::on_call(pid_t pid) {
  if (!jobs_.contains(pid)) {
    consider(pid, true);
  }
}

void JobDiscovery::on_exit(pid_t pid) {
  jobs_.erase(pid);
  scanned_.erase(pid);
}

}  // namespace stalltrace::capture
