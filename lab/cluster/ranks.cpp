// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "base/text.h"
#include "lab/cluster/host/network.h"
#include "lab/cluster/host/process.h"
#include "plugin/embedded/profiler_plugin.h"

namespace stalltrace::lab {
namespace {

/// Makes NCCL find the node's own copy of the plugin.
std::vector<std::string> plugin_environment(const RunOptions& options, const VirtualNode& node) {
  return {fmt::format("NCCL_PROFILER_PLUGIN={}/lib/{}", node.folder, kProfilerPluginFile),
          "STALLTRACE_DIR=" + profiler_folder(options), "STALLTRACE_NODE=" + node.name};
}

SpawnOptions in_background(const std::string& log) {
  SpawnOptions spawn;
  spawn.stdin_path = "/dev/null";
  spawn.stdout_path = spawn.stderr_path = log;
  spawn.own_process_group = true;
  spawn.parent_death_signal = SIGKILL;
  return spawn;
}

/// True if it is that rank of mpirun's, by its program and environment: ranks of one node have one program.
bool runs(int pid, const std::string& program, int rank) {
  std::error_code ignored;
  if (std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), ignored) != program) {
    return false;
  }
  const std::string environment = read_file(fmt::format("/proc/{}/environ", pid)).value_or("");
  const std::string variable = fmt::format("OMPI_COMM_WORLD_RANK={}", rank);
  return std::ranges::any_of(split(environment, '\0'), [&](std::string_view entry) { return entry == variable; });
}

}  // namespace

Status Ranks::start(const RunOptions& options, const std::string& job_id, std::span<VirtualNode> nodes) {
  const WorkloadRow& workload = *find_workload(options.workload);
  std::vector<RankContext> ranks;
  for (const VirtualNode& node : nodes) {
    RankContext context;
    context.node = &node;
    context.master_address = nodes.front().address;
    context.ranks = options.ranks;
    context.steps = options.steps;
    context.job_id = job_id;
    context.step_log = fmt::format("{}/rank{}.steps.jsonl", options.out_dir, node.rank);
    context.log = fmt::format("{}/rank{}.log", options.out_dir, node.rank);
    context.extra = &options.workload_args;
    members_.push_back({.counter = StepCounter(context.step_log), .outcome = {.rank = node.rank}});
    ranks.push_back(std::move(context));
  }
  by_command_ = workload.launcher != nullptr;
  ST_TRY(by_command_ ? start_by_command(options, workload, ranks) : start_each(options, workload, ranks));
  for (VirtualNode& node : nodes) {
    if (const int pid = members_[static_cast<size_t>(node.rank)].outcome.pid; pid > 0) {
      node.pids = {pid};
    }
  }
  return {};
}

Status Ranks::start_each(const RunOptions& options, const WorkloadRow& workload, std::span<const RankContext> ranks) {
  for (const RankContext& context : ranks) {
    SpawnOptions spawn = in_background(context.log);
    spawn.argv = workload.argv(context);
    spawn.environment = workload.environment(context);
    if (options.plugin) {
      const auto more = plugin_environment(options, *context.node);
      spawn.environment.insert(spawn.environment.end(), more.begin(), more.end());
    }
    spawn.netns_path = context.node->netns_path;
    Member& member = members_[static_cast<size_t>(context.node->rank)];
    ST_ASSIGN(member.process, Subprocess::spawn(spawn));
    member.outcome.pid = member.process.pid();
  }
  return {};
}

Status Ranks::start_by_command(const RunOptions& options, const WorkloadRow& workload,
                               std::span<const RankContext> ranks) {
  SpawnOptions spawn = in_background(options.out_dir + "/launcher.log");
  spawn.argv = workload.launcher(ranks);
  spawn.netns_path = fmt::format("/run/netns/{}", kBridgeNetns);
  for (const RankContext& context : ranks) {
    members_[static_cast<size_t>(context.node->rank)].program = workload.argv(context).front();
  }
  ST_ASSIGN(command_, Subprocess::spawn(spawn));
  return {};
}

void Ranks::look_for_ranks(std::span<VirtualNode> nodes) {
  for (Member& member : members_) {
    VirtualNode& node = nodes[static_cast<size_t>(member.outcome.rank)];
    if (member.outcome.pid == 0) {
      const auto pids = processes_in(node.netns_path);
      const auto found =
          std::ranges::find_if(pids, [&](int pid) { return runs(pid, member.program, member.outcome.rank); });
      if (found != pids.end()) {
        member.outcome.pid = *found;
        member.start_ticks = process_start_time(*found);
        node.pids = {*found};
      }
    } else if (process_start_time(member.outcome.pid) != member.start_ticks) {
      node.pids.clear();
    }
  }
}

Status Ranks::reap(std::span<VirtualNode> nodes) {
  if (by_command_) {
    look_for_ranks(nodes);
    if (command_.running()) {
      ST_TRY(command_.try_wait());
    }
    return {};
  }
  for (Member& member : members_) {
    if (!member.process.running()) {
      continue;
    }
    ST_ASSIGN(member.outcome.status, member.process.try_wait());
    if (member.outcome.status) {
      nodes[static_cast<size_t>(member.outcome.rank)].pids.clear();
    }
  }
  return {};
}

bool Ranks::all_ended() const {
  return !command_.running() &&
         std::ranges::none_of(members_, [](const Member& member) { return member.process.running(); });
}

std::string Ranks::failure() const {
  if (by_command_) {
    const auto& status = command_.status();
    return status && !status->success() ? "the command that started the ranks ended with " + format_exit(*status) : "";
  }
  for (const Member& member : members_) {
    if (const auto& status = member.outcome.status; status && !status->success()) {
      return fmt::format("rank {} ended with {}", member.outcome.rank, format_exit(*status));
    }
  }
  return {};
}

Status Ranks::stop(std::span<VirtualNode> nodes) {
  constexpr std::chrono::seconds kGrace{1};
  const auto deadline = std::chrono::steady_clock::now() + kGrace;
  const auto end = [&](Subprocess& process) -> Result<ExitStatus> {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    return process.terminate(SIGTERM, std::max(left, left.zero()));
  };
  for (Member& member : members_) {
    member.outcome.ended_by_lab = member.process.running() || command_.running();
    (void)member.process.send_signal(SIGTERM);
    if (by_command_ && member.start_ticks && process_start_time(member.outcome.pid) == member.start_ticks) {
      ::kill(member.outcome.pid, SIGTERM);  // the command may not reach it any more
    }
  }
  if (command_.running()) {
    ST_TRY(end(command_));
  }
  for (Member& member : members_) {
    if (member.process.running()) {
      ST_ASSIGN(member.outcome.status, end(member.process));
    }
    // For the command's ranks, only the command's own success is known.
    if (by_command_ && command_.status() && command_.status()->success()) {
      member.outcome.status = command_.status();
    }
    nodes[static_cast<size_t>(member.outcome.rank)].pids.clear();
  }
  return {};
}

void Ranks::add_poll_fds(std::vector<pollfd>& fds) const {
  fds.push_back({command_.end_descriptor(), POLLIN, 0});  // poll ignores what is not there
  for (const Member& member : members_) {
    fds.push_back({member.process.end_descriptor(), POLLIN, 0});
  }
}

std::vector<RankOutcome> Ranks::outcomes() {
  std::vector<RankOutcome> outcomes;
  for (Member& member : members_) {
    member.outcome.steps = member.counter.count();
    outcomes.push_back(member.outcome);
  }
  return outcomes;
}

}  // namespace stalltrace::lab
