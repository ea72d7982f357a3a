// SPDX-License-Identifier: Apache-2.0
#include "preflight/host/host_checks.h"

#include <fmt/format.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <charconv>

#include "base/rights/capabilities.h"
#include "base/text.h"

namespace stalltrace::preflight {
namespace {

/// NCCL's guide asks for this much in containers (Troubleshooting, Docker).
constexpr uint64_t kSharedMemory = 1ULL << 30;
/// Less is surely too little for a rank's buffers.
constexpr uint64_t kLockedMemory = 1ULL << 30;
/// A container has this much if its owner asked for no more: too little for two ranks.
constexpr uint64_t kContainerDefault = 64ULL << 20;
/// The kernel's own largest TCP buffers (tcp_init in net/ipv4/tcp.c); less was set on purpose.
constexpr int64_t kReceiveBuffer = 6 << 20;
constexpr int64_t kSendBuffer = 4 << 20;

void check_shared_memory(const ProcessLimits& limits, HostReport& report) {
  const std::string detail =
      fmt::format("/dev/shm has {}, {} free", format_size(static_cast<int64_t>(limits.shared_memory_bytes)),
                  format_size(static_cast<int64_t>(limits.shared_memory_free_bytes)));
  const std::string remedy =
      "in a container: --shm-size=1g, or a memory volume at /dev/shm; else remove old files there";
  if (limits.shared_memory_bytes == 0) {
    report.add("shared_memory", "", Outcome::kFailed,
               "there is no /dev/shm: ranks of one node can't exchange data through it", "mount a tmpfs there");
  } else if (limits.shared_memory_free_bytes <= kContainerDefault) {
    report.add("shared_memory", "", Outcome::kWarning, detail + ": NCCL before 2.24 fails with that", remedy);
  } else if (limits.shared_memory_free_bytes < kSharedMemory) {
    report.add("shared_memory", "", Outcome::kWarning, detail, remedy);
  } else {
    report.add("shared_memory", "", Outcome::kOk, detail);
  }
}

void check_locked_memory(const ProcessLimits& limits, bool rdma, HostReport& report) {
  if (rdma && limits.locked_memory_bytes && *limits.locked_memory_bytes < kLockedMemory) {
    report.add(
        "locked_memory", "", Outcome::kFailed,
        fmt::format("a process may lock {}: InfiniBand buffers need more",
                    format_size(static_cast<int64_t>(*limits.locked_memory_bytes))),
        "ulimit -l unlimited; in Slurm PropagateResourceLimitsExcept=MEMLOCK, in containers --ulimit memlock=-1");
  }
}

void check_cpus(const ProcessLimits& limits, HostReport& report) {
  if (limits.allowed_cpus == 1 && limits.online_cpus > 1) {
    report.add("cpu_affinity", "", Outcome::kWarning,
               fmt::format("this process may run on 1 of {} CPUs: a rank and NCCL's threads would share it",
                           limits.online_cpus),
               "look at the launcher's binding (srun --cpu-bind, mpirun --bind-to, taskset)");
  } else if (limits.allowed_cpus > 0) {
    report.add("cpu_affinity", "", Outcome::kOk, fmt::format("{} of {} CPUs", limits.allowed_cpus, limits.online_cpus));
  }
}

/// Of the version 2 hierarchy; "max 100000" or "150000 100000" (Documentation/admin-guide/cgroup-v2.rst).
void check_quota(const HostFiles& files, HostReport& report) {
  const std::string groups = HostFiles::read(files.proc + "/self/cgroup");
  std::string_view path;
  for (const std::string_view line : split(groups, '\n')) {
    path = line.starts_with("0::") ? line.substr(3) : path;
  }
  if (path.empty()) {
    return;
  }
  const std::string folder = fmt::format("{}/fs/cgroup{}", files.sys, path);
  const std::string limit = HostFiles::read(folder + "/cpu.max");
  const std::vector<std::string_view> parts = split_fields(limit);
  if (parts.size() != 2 || parts[0] == "max") {
    return;
  }
  const double cpus = static_cast<double>(parse_integer(parts[0]).value_or(0)) /
                      static_cast<double>(std::max<int64_t>(parse_integer(parts[1]).value_or(1), 1));
  int64_t throttled = 0;
  const std::string statistics = HostFiles::read(folder + "/cpu.stat");
  for (const std::string_view line : split(statistics, '\n')) {
    if (line.starts_with("nr_throttled ")) {
      throttled = parse_integer(line.substr(line.find(' ') + 1)).value_or(0);
    }
  }
  const std::string detail = fmt::format("its cgroup may use {:.1f} CPUs", cpus);
  if (throttled > 0) {
    report.add("cpu_quota", "", Outcome::kWarning,
               fmt::format("{}, and was stopped {} times for it", detail, throttled),
               "raise the quota (resources.limits.cpu, --cpus), or take it away: each stop is a straggler");
  } else {
    report.add("cpu_quota", "", Outcome::kOk, detail);
  }
}

void check_clock(const ProcessLimits& limits, HostReport& report) {
  if (limits.clock_synchronized) {
    report.add("clock", "", Outcome::kOk, "synchronized");
  } else {
    report.add("clock", "", Outcome::kWarning, "not synchronized: logs of the nodes can't be compared by time",
               "run chrony or systemd-timesyncd");
  }
}

void check_buffer(const HostFiles& files, std::string_view name, int64_t least, HostReport& report) {
  const std::string text = HostFiles::read(fmt::format("{}/sys/net/ipv4/{}", files.proc, name));
  const std::vector<std::string_view> parts = split_fields(text);
  const int64_t largest = parts.size() == 3 ? parse_integer(parts[2]).value_or(0) : 0;
  if (largest > 0 && largest < least) {
    report.add(
        "tcp_buffers", std::string(name), Outcome::kWarning,
        fmt::format("a connection's buffer grows to {} only: it bounds the speed over long links",
                    format_size(largest)),
        fmt::format("sysctl net.ipv4.{}='{} {} {}', the kernel's own, or more", name, parts[0], parts[1], least));
  }
}

/// The second column of a CPU's line counts packets dropped because its queue was full (net/core/net-procfs.c).
void check_softnet(const HostFiles& files, HostReport& report) {
  const std::string table = HostFiles::read(files.proc + "/net/softnet_stat");
  uint64_t dropped = 0;
  for (const std::string_view line : split(table, '\n')) {
    const std::vector<std::string_view> columns = split_fields(line);
    uint64_t value = 0;
    if (columns.size() > 1 &&
        std::from_chars(columns[1].data(), columns[1].data() + columns[1].size(), value, 16).ec == std::errc()) {
      dropped += value;
    }
  }
  if (dropped > 0) {
    report.add("packet_queue", "", Outcome::kWarning,
               fmt::format("{} packets were dropped since boot because a CPU's queue was full", dropped),
               "look whether it grows; raise net.core.netdev_max_backlog, spread the NIC's interrupts");
  }
}

}  // namespace

ProcessLimits read_limits() {
  ProcessLimits limits;
  struct statvfs memory {};
  if (::statvfs("/dev/shm", &memory) == 0) {
    limits.shared_memory_bytes = static_cast<uint64_t>(memory.f_blocks) * memory.f_frsize;
    limits.shared_memory_free_bytes = static_cast<uint64_t>(memory.f_bavail) * memory.f_frsize;
  }
  rlimit locked{};
  if (::getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur != RLIM_INFINITY &&
      (held_capabilities() & capability_bit(CAP_IPC_LOCK)) == 0) {
    limits.locked_memory_bytes = locked.rlim_cur;
  }
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (::sched_getaffinity(0, sizeof(cpus), &cpus) == 0) {
    limits.allowed_cpus = CPU_COUNT(&cpus);
  }
  limits.online_cpus = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  timex state{};
  limits.clock_synchronized = ::adjtimex(&state) >= 0 && (state.status & STA_UNSYNC) == 0;
  return limits;
}

void check_host(const ProcessLimits& limits, HostUse use, const HostFiles& files, HostReport& report) {
  if (use.shared_memory) {
    check_shared_memory(limits, report);
  }
  if (use.process_limits) {
    check_locked_memory(limits, use.rdma, report);
    check_cpus(limits, report);
    check_quota(files, report);
  }
  check_clock(limits, report);
  check_buffer(files, "tcp_rmem", kReceiveBuffer, report);
  check_buffer(files, "tcp_wmem", kSendBuffer, report);
  check_softnet(files, report);
}

}  // namespace stalltrace::preflight
