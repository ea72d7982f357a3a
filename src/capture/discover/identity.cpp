// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/identity.h"

#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <string_view>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "base/version.h"

namespace stalltrace::capture {
namespace {

struct Launcher {
  std::string_view rank;
  std::string_view local_rank;
  std::string_view world_size;
};

constexpr std::array kLaunchers{
    Launcher{"RANK", "LOCAL_RANK", "WORLD_SIZE"},
    Launcher{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"},
    Launcher{"PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"},
    Launcher{"PMIX_RANK", "", ""},
    Launcher{"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"},
};
constexpr std::array<std::string_view, 4> kJobIds{"TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "PMIX_NAMESPACE",
                                                  "OMPI_MCA_ess_base_jobid"};

constexpr std::array<std::string_view, 3> kSettings{"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE"};
constexpr std::array<std::string_view, 6> kSettingsBegin{"NCCL_", "GLOO_",       "TORCH_NCCL_", "TORCH_DISTRIBUTED_",
                                                         "UCX_",  "OMPI_MCA_btl"};

std::optional<int32_t> number_of_variable(const Environment& environment, std::string_view name) {
  const auto number = parse_integer(value_of(environment, name));
  constexpr int64_t kMaxRanks = 1 << 24;
  return number && *number >= 0 && *number < kMaxRanks ? std::optional(static_cast<int32_t>(*number)) : std::nullopt;
}

/// The id of the process's version 2 control group: the inode number of its folder, which bpf_get_current_cgroup_id
/// returns.
uint64_t cgroup_id(pid_t pid) {
  const std::string text = read_file("/proc/" + std::to_string(pid) + "/cgroup", 65536).value_or("");
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with("0::")) {
      continue;
    }
    for (const std::string_view mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      struct stat info {};
      if (::stat((std::string(mount) + std::string(line.substr(3))).c_str(), &info) == 0) {
        return info.st_ino;
      }
    }
  }
  return 0;
}

}  // namespace

JobIdentity job_identity(const Environment& environment) {
  JobIdentity identity;
  for (const Launcher& launcher : kLaunchers) {
    identity.rank = number_of_variable(environment, launcher.rank);
    if (identity.rank) {
      identity.local_rank = number_of_variable(environment, launcher.local_rank);
      identity.world_size = number_of_variable(environment, launcher.world_size);
      if (identity.world_size == 0) {
        identity.world_size.reset();
      }
      break;
    }
  }
  for (const std::string_view name : kJobIds) {
    if (const std::string_view id = value_of(environment, name); !id.empty()) {
      identity.job_id = id;
      break;
    }
  }
  return identity;
}

std::string job_settings(const Environment& environment) {
  constexpr size_t kMostBytes = 4096;
  std::string settings;
  for (const auto& [name, value] : environment) {
    const bool wanted =
        std::ranges::find(kSettings, name) != kSettings.end() ||
        std::ranges::any_of(kSettingsBegin, [&name = name](auto begin) { return name.starts_with(begin); });
    if (wanted && value.find('\n') == std::string::npos &&
        settings.size() + name.size() + value.size() + 2 <= kMostBytes) {
      settings += settings.empty() ? "" : "\n";
      settings += name + "=" + value;
    }
  }
  return settings;
}

std::string hydra_job(const Procfs& procfs, pid_t pid) {
  constexpr int kGenerations = 8;  // shells and wrappers between the proxy and the rank
  pid_t parent = procfs.parent(pid);
  for (int i = 0; i < kGenerations && parent > 1; ++i, parent = procfs.parent(parent)) {
    const std::string line = procfs.command_line(parent);
    const std::vector<std::string_view> words = split(line, ' ');
    const auto value_after = [&](std::string_view option) {
      const auto found = std::ranges::find(words, option);
      return found == words.end() || found + 1 == words.end() ? std::string_view() : *(found + 1);
    };
    if (const std::string_view launcher = value_after("--control-port"); !launcher.empty()) {
      return std::string(launcher) + "/" + std::string(value_after("--pgid"));
    }
  }
  return {};
}

int64_t start_of_process_ns(const Procfs& procfs, pid_t pid, int64_t utc_offset_ns) {
  // Ticks count from boot and include suspended time: CLOCK_BOOTTIME.
  timespec boot{};
  clock_gettime(CLOCK_BOOTTIME, &boot);
  const int64_t boot_now_ns = boot.tv_sec * kNsPerSecond + boot.tv_nsec;
  const auto start_ticks = static_cast<int64_t>(procfs.start_ticks(pid));
  const int64_t age_ns = start_ticks == 0 ? 0 : boot_now_ns - start_ticks * (kNsPerSecond / sysconf(_SC_CLK_TCK));
  return monotonic_now_ns() + utc_offset_ns - age_ns;
}

Process describe_process(const Procfs& procfs, pid_t pid, NodeId node, int64_t utc_offset_ns) {
  Process process;
  process.node_id = node;
  process.pid = pid;
  process.exe = procfs.executable(pid);
  process.cmdline = procfs.command_line(pid);
  process.netns = procfs.netns(pid);
  process.cgroup_id = cgroup_id(pid);
  process.start_ns = start_of_process_ns(procfs, pid, utc_offset_ns);
  if (const auto environment = procfs.environment(pid)) {
    JobIdentity identity = job_identity(*environment);
    process.rank = identity.rank;
    process.rank_source = identity.rank ? RankSource::kEnvironment : RankSource::kUnknown;
    process.local_rank = identity.local_rank;
    process.world_size = identity.world_size;
    process.job_id = std::move(identity.job_id);
    process.settings = job_settings(*environment);
    if (process.job_id.empty() && environment->contains("PMI_RANK")) {
      process.job_id = hydra_job(procfs, pid);
    }
  }
  return process;
}

Node describe_node(const std::string& name_flag) {
  Node node;
  node.name = node_name(name_flag);
  utsname system{};
  if (::uname(&system) == 0) {
    node.hostname = system.nodename;
    node.kernel = std::string(system.release) + " " + system.machine;
  }
  node.boot_id = trim(read_file("/proc/sys/kernel/random/boot_id", 64).value_or(""));
  node.clock_offset_ns = measure_utc_offset_ns();
  node.started_ns = monotonic_now_ns() + node.clock_offset_ns;
  node.agent_version = program_version();
  node.node_id = make_node_id(node.name, node.boot_id, node.started_ns);
  return node;
}

std::string node_name(const std::string& flag) {
  if (!flag.empty()) {
    return flag;
  }
  for (const char* variable : {"STALLTRACE_NODE", "SLURMD_NODENAME"}) {
    if (const char* value = std::getenv(variable); value && *value) {
      return value;
    }
  }
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] ? name : "node";
}

}  // namespace stalltrace::capture
