// SPDX-License-Identifier: Apache-2.0
#include "capture/check.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <span>
#include <string_view>

#include "base/file.h"
#include "base/text.h"
#include "capture/elf_symbols.h"
#include "capture/kernel.h"
#include "capture/kernel_types.h"
#include "capture/mapping_watch.h"
#include "capture/procfs.h"

namespace stalltrace::capture {
namespace {

CheckLine passed(std::string what, std::string detail, bool required) {
  return {.ok = true, .required = required, .what = std::move(what), .detail = std::move(detail)};
}

CheckLine refused(std::string what, const Error& error, bool required) {
  return {.required = required, .what = std::move(what), .detail = error.what, .remedy = error.remedy};
}

CheckLine check_kernel() {
  utsname system{};
  ::uname(&system);
  return passed("kernel", fmt::format("{} {}", system.release, system.machine), true);
}

CheckLine check_btf() {
  const std::string path = kernel_btf_path();
  if (::access(path.c_str(), R_OK) == 0) {
    return passed("type information (BTF)", path, true);
  }
  return {.required = true,
          .what = "type information (BTF)",
          .detail = path + " can't be read",
          .remedy = std::string(kBtfRemedy)};
}

/// Effective capabilities by number (linux/capability.h); the sets are in /proc/self/status.
bool has_capability(int number) {
  const std::string status = read_file("/proc/self/status", 65536).value_or("");
  const size_t at = status.find("CapEff:");
  return at != std::string::npos &&
         ((std::strtoull(status.c_str() + at + 7, nullptr, 16) >> static_cast<unsigned>(number)) & 1U) != 0;
}

CheckLine check_capabilities() {
  struct Capability {
    int number;
    std::string_view name;
  };
  constexpr std::array kNeeded{Capability{39, "CAP_BPF"}, Capability{38, "CAP_PERFMON"}};
  constexpr int kSysAdmin = 21;
  std::string missing;
  for (const Capability& capability : kNeeded) {
    if (!has_capability(capability.number) && !has_capability(kSysAdmin)) {
      missing += (missing.empty() ? "" : ", ") + std::string(capability.name);
    }
  }
  if (missing.empty()) {
    return passed("privilege to trace", "CAP_BPF and CAP_PERFMON", true);
  }
  return {.required = true,
          .what = "privilege to trace",
          .detail = "lacking " + missing,
          .remedy = "run as root, or grant it: setcap cap_bpf,cap_perfmon,cap_sys_ptrace=ep stalltrace"};
}

CheckLine check_ptrace() {
  constexpr int kSysPtrace = 19;
  if (has_capability(kSysPtrace)) {
    return passed("other users' processes", "CAP_SYS_PTRACE", false);
  }
  return {.what = "other users' processes",
          .detail = "lacking CAP_SYS_PTRACE: only your own jobs can be traced",
          .remedy = "run as root, or grant CAP_SYS_PTRACE"};
}

/// Never called: something of our own to probe.
[[gnu::noinline, gnu::used]] void probed_by_check() { asm volatile(""); }

/// Probes a function of this program, as a library's are probed. The kernel side removes it with itself.
Status probe_ourselves(Kernel& kernel) {
  const auto address = reinterpret_cast<uint64_t>(&probed_by_check);
  ST_ASSIGN(const std::string maps, read_file("/proc/self/maps"));
  for (const std::string_view line : split(maps, '\n')) {
    uint64_t start = 0;
    uint64_t end = 0;
    uint64_t offset = 0;
    if (std::sscanf(std::string(line).c_str(), "%lx-%lx %*s %lx", &start, &end, &offset) == 3 && address >= start &&
        address < end) {
      const ProbePoint point{.offset = address - start + offset, .row = 0};
      return kernel.attach_file("/proc/self/exe", std::span(&point, 1));
    }
  }
  return fail("this program's own code was not found in /proc/self/maps");
}

void check_programs(std::vector<CheckLine>& lines) {
  const auto kernel = Kernel::load({});
  if (!kernel) {
    lines.push_back(refused("BPF programs", kernel.error(), true));
    return;
  }
  lines.push_back(passed("BPF programs", "loaded, tracepoints attached", true));
  for (const std::string& missing : (*kernel)->missing()) {
    lines.push_back({.what = "tracepoints", .detail = missing, .remedy = "a newer kernel has it"});
  }
  const std::string kind = (*kernel)->probe_link() == ProbeLink::kUprobeMulti
                               ? "uprobe-multi links"
                               : "perf uprobes (uprobe-multi links need Linux 6.6)";
  const Status probed = probe_ourselves(**kernel);
  lines.push_back(probed ? passed("probes", kind, true) : refused("probes", probed.error(), true));
}

CheckLine check_mapping_watch() {
  const auto watch = MappingWatch::open();
  return watch ? passed("new libraries seen at once", "perf mmap records", false)
               : refused("new libraries seen at once", watch.error(), false);
}

CheckLine check_jobs() {
  const Procfs procfs;
  size_t jobs = 0;
  size_t unreadable = 0;
  std::set<std::string> libraries;
  for (const pid_t pid : procfs.pids()) {
    const auto mappings = procfs.executable_mappings(pid);
    if (!mappings) {
      ++unreadable;
      continue;
    }
    bool is_job = false;
    for (const MappedFile& file : *mappings) {
      for (const std::string& path : procfs.host_paths(pid, file)) {
        const auto symbols = find_probe_points(path);
        if (symbols) {
          if (symbols->has_collectives) {
            is_job = true;
            libraries.insert(file.path);
          }
          break;
        }
      }
    }
    jobs += is_job;
  }
  std::string detail = fmt::format("{} with a collective library now", jobs);
  for (const std::string& library : libraries) {
    detail += ", " + library;
  }
  if (jobs == 0) {
    detail += "; a job that starts later is picked up";
  }
  if (unreadable > 0) {
    detail += fmt::format("; {} processes could not be looked into", unreadable);
  }
  return passed("processes", std::move(detail), false);
}

}  // namespace

std::vector<CheckLine> check_host() {
  std::vector<CheckLine> lines{check_kernel(), check_btf(), check_capabilities(), check_ptrace()};
  check_programs(lines);
  lines.push_back(check_mapping_watch());
  lines.push_back(check_jobs());
  return lines;
}

}  // namespace stalltrace::capture
