// SPDX-License-Identifier: Apache-2.0
#include "capture/check.h"

#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <set>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "base/file.h"
#include "base/process/procfs.h"
#include "base/process/resource_limits.h"
#include "base/rights/capabilities.h"
#include "base/rights/confinement.h"
#include "base/text.h"
#include "capture/discover/files/library_files.h"
#include "capture/discover/mapping_watch.h"
#include "capture/kernel/bpf_programs.h"
#include "capture/kernel/kernel_types.h"
#include "capture/privileges.h"
#include "wire/config.h"

namespace stalltrace::capture {
namespace {

CheckLine passed(std::string key, std::string what, std::string detail) {
  return {.key = std::move(key), .what = std::move(what), .detail = std::move(detail)};
}

CheckLine failed(CheckState state, std::string key, std::string what, const Error& error) {
  return {.state = state, .key = std::move(key), .what = std::move(what), .detail = error.what, .remedy = error.remedy};
}

/// The first mainline kernel that has each feature.
constexpr std::string_view kUprobeMultiSince = "6.6";
constexpr std::string_view kTaskStorageSince = "5.12";
constexpr std::string_view kLandlockSince = "5.13";

CheckLine check_kernel() {
  utsname system{};
  ::uname(&system);
  return passed("kernel", "kernel", fmt::format("{} {}", system.release, system.machine));
}

CheckLine check_btf() {
  const std::string path = kernel_btf_path();
  if (::access(path.c_str(), R_OK) == 0) {
    return passed("btf", "type information (BTF)", path);
  }
  return failed(CheckState::kRefused, "btf", "type information (BTF)",
                {.what = path + " can't be read", .remedy = std::string(kBtfRemedy)});
}

CheckLine check_capabilities() {
  const Capabilities held = held_capabilities();
  const Capabilities needed =
      (held & capability_bit(CAP_SYS_ADMIN)) != 0 ? 0 : capability_bit(CAP_BPF) | capability_bit(CAP_PERFMON);
  const Capabilities missing = needed & ~held;
  if (missing == 0) {
    return passed("privilege", "privilege to trace", "CAP_BPF and CAP_PERFMON");
  }
  return failed(CheckState::kRefused, "privilege", "privilege to trace",
                {.what = "lacking " + capability_names(missing),
                 .remedy = "run as root, or as a service with these capabilities (docs/cluster.md)"});
}

CheckLine check_ptrace() {
  if ((held_capabilities() & capability_bit(CAP_SYS_PTRACE)) != 0) {
    return passed("other_users", "other users' processes", "CAP_SYS_PTRACE");
  }
  return failed(CheckState::kMissing, "other_users", "other users' processes",
                {.what = "lacking CAP_SYS_PTRACE: only your own jobs can be traced",
                 .remedy = "run as root, or grant CAP_SYS_PTRACE"});
}

/// What a trace and the subcommands that read keep of this process's rights.
void check_rights(const KernelFeatures& features, std::vector<CheckLine>& lines) {
  const Confined confined = possible_confinement();
  const PrivilegeNeeds needs{.uprobe_multi = features.uprobe_multi, .system_call_filters = confined.system_calls};
  lines.push_back(
      passed("kept_privilege", "privilege that a trace keeps", kept_privileges_text(held_capabilities(), needs)));
  CheckLine reading = passed("confinement", "what explain, query, merge and import give up",
                             "new programs and sockets (seccomp), writing elsewhere (Landlock)");
  reading.since = kLandlockSince;
  if (!confined.system_calls || !confined.files) {
    reading.state = CheckState::kFallback;
    reading.detail =
        confined.system_calls
            ? fmt::format("new programs and sockets (seccomp); writing elsewhere takes Landlock (Linux {})",
                          kLandlockSince)
        : confined.files ? "writing elsewhere (Landlock); this kernel has no system call filters"
                         : "nothing: this kernel has neither seccomp nor Landlock";
  }
  lines.push_back(std::move(reading));
}

/// Never called; check probes it.
[[gnu::noinline, gnu::used]] void probed_by_check() { asm volatile(""); }

/// Probes a function of this program the way library functions are probed. The kernel side removes the probe with
/// itself.
Status probe_ourselves(BpfPrograms& kernel) {
  const auto address = reinterpret_cast<uint64_t>(&probed_by_check);
  ST_ASSIGN(const std::string maps, read_file("/proc/self/maps"));
  for (const std::string_view line : split(maps, '\n')) {
    uint64_t start = 0;
    uint64_t end = 0;
    uint64_t offset = 0;
    if (std::sscanf(std::string(line).c_str(), "%lx-%lx %*s %lx", &start, &end, &offset) == 3 && address >= start &&
        address < end) {
      const ProbePoint point{.offset = address - start + offset, .row = 0};
      const auto probes = kernel.attach_file("/proc/self/exe", std::span(&point, 1));
      return probes ? Status() : Status(std::unexpected(probes.error()));
    }
  }
  return fail("this program's own code was not found in /proc/self/maps");
}

constexpr std::string_view kReport =
    "all else is recorded; report this kernel with the output of 'stalltrace check --programs'";
constexpr std::string_view kNewerKernel = "a newer kernel records it";

/// Reports how the calls' probes are attached.
CheckLine check_probes(BpfPrograms& kernel) {
  const KernelFeatures& features = kernel.features();
  if (const Status probed = probe_ourselves(kernel); !probed) {
    return failed(CheckState::kRefused, "probes", "probes", probed.error());
  }
  CheckLine line = passed("probes", "probes", "uprobe-multi links");
  line.since = kUprobeMultiSince;
  if (features.uprobe_multi) {
    return line;
  }
  line.detail = fmt::format(
      "perf events, a file descriptor for every probe (uprobe-multi links need Linux {}), removed "
      "one by one at the end, some 20 ms each; {} are allowed",
      kUprobeMultiSince, descriptor_limit());
  line.state = CheckState::kFallback;
  if (!features.attach_cookie) {
    line.detail += "; a small program of its own at every probe (cookies need Linux 5.15)";
  }
  return line;
}

CheckLine check_storage(const KernelFeatures& features) {
  CheckLine line = passed("storage", "state of threads and sockets", "kept at the task and the socket");
  line.since = kTaskStorageSince;
  if (features.task_storage && features.socket_storage) {
    return line;
  }
  if (!features.task_storage) {
    line.detail = fmt::format("kept in hash tables: at most {} threads of traced processes and {} sockets (Linux {})",
                              ST_TRACED_THREADS, ST_TRACED_SOCKETS, kTaskStorageSince);
  } else {
    line.detail = fmt::format(
        "of sockets in a hash table, at most {} (programs at kprobes can't keep it at the socket)", ST_TRACED_SOCKETS);
  }
  line.state = CheckState::kFallback;
  return line;
}

void check_kernel_side(std::vector<CheckLine>& lines) {
  const auto kernel = BpfPrograms::load({});
  if (!kernel) {
    lines.push_back(failed(CheckState::kRefused, "programs", "BPF programs", kernel.error()));
    return;
  }
  lines.push_back(passed("programs", "BPF programs", "loaded and attached"));
  lines.push_back(check_probes(**kernel));
  lines.push_back(check_storage((*kernel)->features()));
  check_rights((*kernel)->features(), lines);
  for (const EvidenceChoice& choice : (*kernel)->evidence()) {
    const EvidenceKindInfo& info = info_of(choice.kind);
    CheckLine line = passed(std::string(info.key), std::string(info.title), choice.detail);
    line.since = info.since;
    if (choice.state == EvidenceState::kFallback) {
      line.state = CheckState::kFallback;
    } else if (choice.state == EvidenceState::kMissing) {
      line.state = CheckState::kMissing;
      line.remedy = choice.refused                           ? kReport
                    : choice.kind == EvidenceKind::kRunQueue ? "a kernel built with CONFIG_SCHED_INFO records it"
                                                             : kNewerKernel;
    }
    lines.push_back(std::move(line));
  }
}

CheckLine check_mapping_watch() {
  const auto watch = MappingWatch::open();
  const std::string what = "new libraries seen at once";
  return watch ? passed("mapping_watch", what, "perf mmap records")
               : failed(CheckState::kMissing, "mapping_watch", what, watch.error());
}

/// How long files of this host, and of others, are waited for: a server that does not answer takes 3 s to be given up.
constexpr int64_t kHereNs = kNsPerSecond;
constexpr int64_t kRemoteNs = 8 * kNsPerSecond;

void check_jobs(const TrustedOwners& trusted, std::vector<CheckLine>& lines) {
  const Procfs procfs;
  std::vector<std::string> notes;
  LibraryFiles files(procfs, trusted, [&](const std::string& text) { notes.push_back(text); });
  size_t jobs = 0;
  size_t unreadable = 0;
  std::set<std::string> libraries;
  const auto each_mapping = [&](const auto& visit) {
    for (const pid_t pid : procfs.pids()) {
      const auto mappings = procfs.executable_mappings(pid);
      unreadable += mappings ? 0 : 1;
      bool is_job = false;
      for (const MappedFile& mapping : mappings.value_or(std::vector<MappedFile>())) {
        const auto found = files.inspect(pid, mapping);
        is_job = (found && visit(pid, mapping, *found)) || is_job;
      }
      jobs += is_job ? 1 : 0;
    }
  };
  // Twice: another process reads what is not root's or lies on another host, and names what is to be inspected again.
  each_mapping([](pid_t, const MappedFile&, const LibraryFiles::Found&) { return false; });
  files.wait_for_files([&](pid_t pid, const MappedFile& mapping) { (void)files.inspect(pid, mapping); }, kHereNs,
                       kRemoteNs);
  const size_t unread = files.unread();
  unreadable = 0;
  each_mapping([&](pid_t pid, const MappedFile& mapping, const LibraryFiles::Found& found) {
    const bool counts = found.file->symbols.has_collectives && files.may_be_probed(pid, mapping, found);
    if (counts) {
      libraries.insert(mapping.path);
    }
    return counts;
  });
  std::string detail = fmt::format("{} with a collective library now", jobs);
  for (const std::string& library : libraries) {
    detail += ", " + printable(library);
  }
  if (jobs == 0) {
    detail += "; a job that starts later is picked up";
  }
  if (unreadable > 0) {
    detail += fmt::format("; {} processes could not be looked into", unreadable);
  }
  lines.push_back(passed("processes", "processes", std::move(detail)));
  if (unread > 0) {
    lines.push_back(
        failed(CheckState::kMissing, "libraries", "files not read yet",
               {.what = fmt::format("{} mapped files: their file system does not answer, or is slow", unread),
                .remedy = "trace goes on asking for them; look at the mounts of the jobs' software"}));
  }
  for (const std::string& note : notes) {
    lines.push_back(failed(CheckState::kMissing, "libraries", "libraries left out", {.what = note}));
  }
}

}  // namespace

std::vector<CheckLine> check_host(const TrustedOwners& trusted) {
  std::vector<CheckLine> lines{check_kernel(), check_btf(), check_capabilities(), check_ptrace()};
  check_kernel_side(lines);
  lines.push_back(check_mapping_watch());
  check_jobs(trusted, lines);
  return lines;
}

Result<CheckedPrograms> check_programs() {
  const int64_t before_ns = monotonic_now_ns();
  ST_ASSIGN(const auto kernel, BpfPrograms::load({.report_programs = true}));
  return CheckedPrograms{.programs = kernel->program_reports(), .load_us = (monotonic_now_ns() - before_ns) / kNsPerUs};
}

}  // namespace stalltrace::capture
