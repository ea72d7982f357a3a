// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/injection/injector.h"

#include <fmt/format.h>

#include <utility>

#include "base/clock.h"

namespace stalltrace::lab {
namespace {

/// A fault whose start is not given begins after this share of the steps.
constexpr int kDefaultStartDivisor = 3;

Schedule make_schedule(const FaultSpec& spec, const FaultRow& row, int64_t start_ns) {
  Schedule schedule;
  schedule.start_ns = start_ns;
  if (spec.duration_ns) {
    schedule.end_ns = start_ns + *spec.duration_ns;
  }
  schedule.pulse_ns = pulse_of(row, spec);
  schedule.every_ns = spec.every_ns;
  return schedule;
}

}  // namespace

bool Schedule::active_at(int64_t time_ns) const {
  if (time_ns < start_ns || (end_ns && time_ns >= *end_ns)) {
    return false;
  }
  if (!pulse_ns) {
    return true;
  }
  const int64_t since_start = time_ns - start_ns;
  return (every_ns ? since_start % *every_ns : since_start) < *pulse_ns;
}

Result<Injector> Injector::make(std::span<const FaultSpec> specs, std::span<const VirtualNode> nodes, int total_steps,
                                uint64_t seed, Announce announce) {
  Injector injector;
  injector.nodes_ = nodes;
  injector.total_steps_ = total_steps;
  injector.announce_ = std::move(announce);
  for (const FaultSpec& spec : specs) {
    if (spec.cause == "none") {
      continue;
    }
    Planned planned;
    planned.row = find_fault_row(spec.cause);
    if (planned.row == nullptr) {
      return fail(fmt::format("fault '{}': no such fault", spec.text), {}, ErrorKind::kUsage);
    }
    planned.truth.spec = spec;
    const int ranks_per_node = nodes.empty() ? 1 : nodes.front().local_ranks;
    ST_ASSIGN(planned.truth.rank, choose_rank(spec, static_cast<int>(nodes.size()), seed, ranks_per_node));
    if (planned.row->of_node) {
      planned.truth.node = nodes[static_cast<size_t>(planned.truth.rank)].name;
    }
    injector.faults_.push_back(std::move(planned));
  }
  return injector;
}

Injector::~Injector() { (void)finish(); }

void Injector::plan(Planned& fault, const JobProgress& progress) const {
  const FaultSpec& spec = fault.truth.spec;
  if (!progress.since_first_step_ns) {
    return;
  }
  if (spec.start_ns) {
    fault.schedule = make_schedule(spec, *fault.row, *spec.start_ns);
  } else if (progress.steps >= total_steps_ / kDefaultStartDivisor) {
    fault.schedule = make_schedule(spec, *fault.row, *progress.since_first_step_ns);
  }
}

Status Injector::prepare() {
  for (Planned& fault : faults_) {
    if (fault.row->onset == Onset::kLaunch || fault.truth.spec.at_launch) {
      fault.schedule = Schedule{};
      ST_TRY(begin(fault));
    }
  }
  return {};
}

Status Injector::tick(const JobProgress& progress) {
  for (Planned& fault : faults_) {
    if (!fault.schedule) {
      plan(fault, progress);
    }
    const bool due = fault.schedule && fault.schedule->active_at(progress.since_first_step_ns.value_or(0));
    const bool rank_runs = !nodes_[static_cast<size_t>(fault.truth.rank)].pids.empty();
    if (due && !fault.applied && rank_runs) {
      ST_TRY(begin(fault));
    } else if (!due && fault.applied) {
      ST_TRY(end(fault));
    }
  }
  return {};
}

Status Injector::begin(Planned& fault) {
  const FaultContext context = {nodes_, fault.truth.rank, static_cast<int>(&fault - faults_.data())};
  const int64_t from_ns = utc_now_ns();
  auto applied = fault.row->apply(fault.truth.spec, context);
  if (!applied) {
    return with_context(fmt::format("fault '{}'", fault.truth.spec.text), std::move(applied.error()));
  }
  fault.truth.link = applied->link;
  fault.truth.commands.insert(fault.truth.commands.end(), applied->commands.begin(), applied->commands.end());
  fault.truth.details = applied->details;
  fault.truth.intervals.push_back({from_ns, from_ns});
  fault.applied = std::move(*applied);
  announce_(fmt::format("{} begins", fault.truth.spec.text));
  return {};
}

Status Injector::end(Planned& fault) {
  const AppliedFault applied = *std::exchange(fault.applied, std::nullopt);
  Status status;
  if (applied.drops) {
    if (const auto packets = read_counter(*applied.drops)) {
      fault.truth.packets_dropped = fault.truth.packets_dropped.value_or(0) + *packets;
    } else {
      status = std::unexpected(packets.error());
    }
  }
  const Status undone = undo_all(applied.undo);
  fault.truth.intervals.back().to_ns = utc_now_ns();
  announce_(fmt::format("{} ends", fault.truth.spec.text));
  ST_TRY(undone);
  return status;
}

Status Injector::finish() {
  Status first;
  for (auto fault = faults_.rbegin(); fault != faults_.rend(); ++fault) {
    if (fault->applied) {
      if (Status status = end(*fault); !status && first) {
        first = std::move(status);
      }
    }
  }
  return first;
}

std::vector<FaultTruth> Injector::truths() const {
  std::vector<FaultTruth> truths;
  for (const Planned& fault : faults_) {
    truths.push_back(fault.truth);
  }
  return truths;
}

}  // namespace stalltrace::lab
