// SPDX-License-Identifier: Apache-2.0
// CPU contention: another program competes with all threads of a rank for one core. If there is a second core, the
// other ranks keep to the rest, so that the competitor meets only its target. Alternatively, the rank's cgroup may use
// only a part of a core, and is throttled for the rest of each tenth of a second.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <array>
#include <csignal>

#include "base/process/command.h"
#include "base/process/subprocess.h"
#include "lab/cluster/faults/faults.h"
#include "lab/cluster/host/cgroup.h"
#include "lab/cluster/host/process.h"

namespace stalltrace::lab {
namespace {

constexpr std::array<std::string_view, 2> kHow = {"competitor", "throttle"};
constexpr std::array kParameters = {
    FaultParameter{"threads", "1", 1, 64, {}, "of the competitor, all on the rank's core"},
    FaultParameter{"nice", "-10", -20, 19, {}, "of the competitor"},
    FaultParameter{"percent", "100", 1, 100, {}, "of the time that each of its threads wants to run"},
    FaultParameter{"how", "competitor", 0, 0, kHow, "the rank loses its core: or to the limit of its cgroup"},
    FaultParameter{"quota", "5", 1, 100, {}, "percent of one core that its cgroup may use, with how=throttle"},
};
constexpr int kPeriodUs = 100'000;

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(static_cast<size_t>(cpu), &set)) {
        cpus.push_back(cpu);
      }
    }
  }
  return cpus;
}

/// Binds every thread of a process and records how to undo it: all CPUs that this process may use.
void bind_process(int pid, const std::vector<int>& cpus, const std::vector<int>& all, AppliedFault& applied) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) {
    CPU_SET(static_cast<size_t>(cpu), &set);
  }
  for (const int tid : threads_of(pid)) {
    ::sched_setaffinity(tid, sizeof set, &set);  // fails only for a thread that has just ended
  }
  UndoAction free_again = undo_for_process(UndoKind::kAffinity, pid);
  for (const int cpu : all) {
    free_again.arguments.push_back(std::to_string(cpu));
  }
  applied.undo.push_back(std::move(free_again));
  applied.commands.push_back(fmt::format("taskset -a -p -c {} {}", fmt::join(cpus, ","), pid));
}

void bind_ranks(const FaultContext& context, int core, const std::vector<int>& all, AppliedFault& applied) {
  std::vector<int> rest = all;
  std::erase(rest, core);
  for (const VirtualNode& node : context.nodes) {
    const bool hit = node.rank == context.rank;
    for (const int pid : node.pids) {
      if (hit || !rest.empty()) {
        bind_process(pid, hit ? std::vector{core} : rest, all, applied);
      }
    }
  }
}

Result<AppliedFault> throttle(const FaultSpec& spec, const FaultContext& context) {
  const std::string quota = std::to_string(static_cast<int>(spec.number("quota")) * kPeriodUs / 100);
  const std::string period = std::to_string(kPeriodUs);
  const CgroupLimit limit = {{{"cpu.cfs_period_us", period}, {"cpu.cfs_quota_us", quota}},
                             {{"cpu.max", fmt::format("{} {}", quota, period)}}};
  AppliedFault applied;
  ST_TRY(limit_processes("cpu", context.number, limit, context.node().pids, applied.commands, applied.undo));
  return applied;
}

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  const VirtualNode& node = context.node();
  const std::vector<int> all = allowed_cpus();
  if (node.pids.empty() || all.empty()) {
    return fail("no process runs on " + node.name, "start one there first");
  }
  if (spec.choice("how") == "throttle") {
    return throttle(spec, context);
  }
  AppliedFault applied;
  const int core = all.back();
  bind_ranks(context, core, all, applied);

  SpawnOptions competitor;
  competitor.argv = {node.folder + "/bin/stress-cpu", std::string(spec.choice("threads")),
                     std::string(spec.choice("percent"))};
  competitor.netns_path = node.netns_path;
  competitor.cpus = {core};
  competitor.nice = static_cast<int>(spec.number("nice"));
  competitor.stdin_path = competitor.stdout_path = competitor.stderr_path = "/dev/null";
  competitor.own_process_group = true;
  competitor.parent_death_signal = context.outlives_caller ? 0 : SIGKILL;
  auto child = Subprocess::spawn(competitor);
  if (!child) {
    (void)undo_all(applied.undo);
    return std::unexpected(std::move(child.error()));
  }
  const int pid = child->detach();
  applied.undo.push_back(undo_for_process(UndoKind::kKill, pid));
  applied.commands.push_back(fmt::format("ip netns exec {} nice -n {} taskset -c {} {}", node.netns, competitor.nice,
                                         core, format_command(competitor.argv)));
  applied.details = {
      {"competitor", "stress-cpu"}, {"competitor_pid", std::to_string(pid)}, {"cpu", std::to_string(core)}};
  return applied;
}

}  // namespace

FaultRow cpu_contention_row() {
  return {"cpu_contention",
          "another program competes with the rank's threads for their core",
          "cpu_contention:rank=1,threads=4",
          kParameters,
          "",
          apply};
}

}  // namespace stalltrace::lab
