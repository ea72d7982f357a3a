// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "embedded/profiler_plugin.h"

namespace stalltrace::lab {
namespace {

/// NCCL finds the node's own copy of the plugin.
std::vector<std::string> plugin_environment(const RunOptions& options, const VirtualNode& node) {
  return {fmt::format("NCCL_PROFILER_PLUGIN={}/lib/{}", node.folder, kProfilerPluginFile),
          "STALLTRACE_DIR=" + ring_folder(options), "STALLTRACE_NODE=" + node.name};
}

}  // namespace

Status Ranks::start(const RunOptions& options, const std::string& job_id, std::span<VirtualNode> nodes) {
  const WorkloadRow& workload = *find_workload(options.workload);
  for (VirtualNode& node : nodes) {
    RankContext context;
    context.node = &node;
    context.master_address = nodes.front().address;
    context.ranks = options.ranks;
    context.steps = options.steps;
    context.job_id = job_id;
    context.step_log = fmt::format("{}/rank{}.steps.jsonl", options.out_dir, node.rank);
    context.extra = &options.workload_args;

    SpawnOptions spawn;
    spawn.argv = workload.argv(context);
    spawn.environment = workload.environment(context);
    if (options.plugin) {
      const auto more = plugin_environment(options, node);
      spawn.environment.insert(spawn.environment.end(), more.begin(), more.end());
    }
    spawn.netns_path = node.netns_path;
    spawn.stdin_path = "/dev/null";
    spawn.stdout_path = spawn.stderr_path = fmt::format("{}/rank{}.log", options.out_dir, node.rank);
    spawn.own_process_group = true;
    spawn.parent_death_signal = SIGKILL;
    ST_ASSIGN(Subprocess process, Subprocess::spawn(spawn));
    node.pids = {process.pid()};
    RankOutcome outcome;
    outcome.rank = node.rank;
    outcome.pid = process.pid();
    members_.push_back({std::move(process), StepCounter(context.step_log), std::move(outcome)});
  }
  return {};
}

Status Ranks::reap(std::span<VirtualNode> nodes) {
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
  return std::ranges::none_of(members_, [](const Member& member) { return member.process.running(); });
}

std::string Ranks::failure() const {
  for (const Member& member : members_) {
    if (const auto& status = member.outcome.status; status && !status->success()) {
      return fmt::format("rank {} ended with {}", member.outcome.rank, format_exit(*status));
    }
  }
  return {};
}

Status Ranks::stop(std::span<VirtualNode> nodes) {
  constexpr std::chrono::seconds kGrace{3};
  for (Member& member : members_) {
    member.outcome.ended_by_lab = member.process.running();
    (void)member.process.send_signal(SIGTERM);
  }
  const auto deadline = std::chrono::steady_clock::now() + kGrace;
  for (Member& member : members_) {
    if (member.process.running()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      ST_ASSIGN(member.outcome.status, member.process.terminate(SIGTERM, std::max(left, left.zero())));
    }
    nodes[static_cast<size_t>(member.outcome.rank)].pids.clear();
  }
  return {};
}

void Ranks::add_poll_fds(std::vector<pollfd>& fds) const {
  for (const Member& member : members_) {
    fds.push_back({member.process.pidfd(), POLLIN, 0});
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
