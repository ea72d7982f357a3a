// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/simulated/truth_of.h"

#include <fmt/format.h>

#include "lab/simulation/shapes.h"

namespace stalltrace::lab {
namespace {

/// No agent sees a process's exit after the end of the recordings.
std::optional<ExitStatus> status_of(const simulation::RankHistory& rank) {
  if (!rank.exit_ns) {
    return std::nullopt;
  }
  return rank.exit_signal != 0 ? ExitStatus{{}, rank.exit_signal} : ExitStatus{rank.exit_code, {}};
}

FaultTruth fault_of(const simulation::Job& job, size_t index) {
  const simulation::Fault& fault = job.options().faults[index];
  FaultTruth truth;
  truth.spec.text = fault.text;
  truth.spec.cause = simulation::cause_of(fault.kind);
  truth.spec.values["ms"] = fmt::format("{}", fault.ms);
  truth.spec.values["every"] = fmt::format("{}", fault.every);
  truth.spec.values["factor"] = fmt::format("{}", fault.factor);
  if (simulation::is_of_node(fault.kind)) {
    truth.spec.values["direction"] = "egress";
    truth.node = simulation::Job::node_name(fault.rank / job.options().ranks_per_node);
  }
  truth.rank = fault.kind == simulation::FaultKind::kCongestion ? -1 : fault.rank;
  for (const simulation::Effect& effect : job.history().effects) {
    if (effect.fault == index) {
      truth.intervals.push_back({effect.from_ns, effect.to_ns});
    }
  }
  return truth;
}

}  // namespace

Truth truth_of(const simulation::Job& job) {
  const simulation::JobOptions& options = job.options();
  const simulation::History& history = job.history();
  const simulation::Attempt& last = history.attempts.back();
  Truth truth;
  truth.options.ranks = options.ranks();
  truth.options.ranks_per_node = options.ranks_per_node;
  truth.options.workload = "simulated:" + options.shape;
  truth.options.steps = options.steps;
  truth.options.seed = options.seed;
  truth.options.plugin = options.plugin;
  truth.job_id = "simulated";
  truth.started_ns = history.attempts.front().ranks.front().started_ns;
  truth.first_step_ns = history.first_step_ns;
  truth.ended_ns = history.hung ? job.recorded_to_ns() : history.ended_ns;
  truth.completed = !history.hung;
  truth.problem = history.hung ? "the job hung" : "";
  for (int rank = 0; rank < options.ranks(); ++rank) {
    const simulation::RankHistory& own = last.ranks[static_cast<size_t>(rank)];
    const int node = rank / options.ranks_per_node;
    NodeTruth entry{.agent_pid = 1};
    entry.node.rank = entry.rank.rank = rank;
    entry.node.name = simulation::Job::node_name(node);
    entry.node.address = simulation::Job::address_of(node);
    entry.rank.pid = own.pid;
    entry.rank.steps = own.steps;
    entry.rank.status = status_of(own);
    const simulation::SimulatedClock clock = job.clock(node);
    entry.clock = ClockTruth{simulation::kOriginNs, clock.error_ns, clock.drift * 1e6};
    truth.nodes.push_back(std::move(entry));
  }
  for (size_t i = 0; i < options.faults.size(); ++i) {
    truth.faults.push_back(fault_of(job, i));
  }
  return truth;
}

}  // namespace stalltrace::lab
