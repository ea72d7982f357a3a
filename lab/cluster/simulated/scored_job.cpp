// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/simulated/scored_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "lab/cluster/campaign/score.h"
#include "lab/cluster/simulated/truth_of.h"
#include "lab/simulation/shapes.h"
#include "model/memory_source.h"

namespace stalltrace::lab {
namespace {

using simulation::Fault;
using simulation::FaultKind;
using simulation::Job;
using simulation::JobOptions;

/// A late rank or slow device with less than that in a step is quiet.
constexpr double kLoudMs = 80;

bool has_dose(FaultKind kind) { return kind == FaultKind::kLateRank || kind == FaultKind::kSlowDevice; }

DrawKind kind_of(const JobOptions& options) {
  if (options.faults.empty()) {
    return DrawKind::kHealthy;
  }
  if (options.faults.size() > 1) {
    return DrawKind::kCombined;
  }
  const Fault& fault = options.faults.front();
  return has_dose(fault.kind) && fault.ms < kLoudMs ? DrawKind::kQuiet : DrawKind::kLoud;
}

/// "late_rank 80 ms, plugin"; of a healthy job its shape.
std::string setting_of(const JobOptions& options) {
  std::string name;
  for (const Fault& fault : options.faults) {
    name += fmt::format("{}{}{}", name.empty() ? "" : " and ", simulation::cause_of(fault.kind),
                        has_dose(fault.kind) ? fmt::format(" {:.0f} ms", fault.ms) : "");
  }
  return name.empty() ? options.shape : name + (options.plugin ? ", plugin" : "");
}

int64_t length_ns(const Job& job) { return job.history().ended_ns - job.history().first_step_ns; }

/// How long the same job takes without its faults; nullopt where that says nothing of their cost: it has none, or
/// hangs.
std::optional<int64_t> healthy_length_ns(const Job& job) {
  if (job.history().hung || job.options().faults.empty()) {
    return std::nullopt;
  }
  JobOptions healthy = job.options();
  healthy.faults.clear();
  return length_ns(Job(std::move(healthy)));
}

/// What a fault cost at once, of its cost: what acts in each step alike costs each its share; else one may cost all.
double single_ms(const Job& job, double cost_ms) {
  const Fault& fault = job.options().faults.front();
  const int steps = std::min(fault.to, job.options().steps) - fault.from;
  return simulation::is_in_each_step(fault) ? cost_ms / std::max(1, steps) : cost_ms;
}

DrawScore score_of(const Job& job, const TruthRead& truth, const Report& report, const GateOf& gate_of) {
  const std::optional<int64_t> healthy_ns = healthy_length_ns(job);
  std::optional<TrueCost> cost;
  if (healthy_ns) {
    const double ms = static_cast<double>(length_ns(job) - *healthy_ns) / static_cast<double>(kNsPerMs);
    cost = TrueCost{.ms = ms, .single_ms = single_ms(job, ms)};
  }
  DrawScore scored = score(truth, reported_faults(report), cost, gate_of);
  if (healthy_ns && scored.faults.size() == 1) {
    scored.faults[0].cost_share = static_cast<double>(length_ns(job) - *healthy_ns) / static_cast<double>(*healthy_ns);
  }
  return scored;
}

}  // namespace

Result<JobOptions> draw_simulated(uint64_t seed, int64_t number, std::string_view only,
                                  const simulation::DrawLimits& limits) {
  const uint64_t own = seed + static_cast<uint64_t>(number);
  const auto all = simulation::shapes();
  const bool shape = std::ranges::find(all, only, &simulation::Shape::name) != all.end();
  if (only.empty() || shape) {
    return number % 2 == 0 ? simulation::draw_healthy(own, limits, only)
                           : simulation::draw_faulty(own, std::nullopt, limits, only);
  }
  if (only == "healthy") {
    return simulation::draw_healthy(own, limits);
  }
  ST_ASSIGN(const Fault fault, simulation::parse_fault(only, {}));
  return simulation::draw_faulty(own, fault.kind, limits);
}

std::string text_of(const JobOptions& options) {
  std::string text = fmt::format(
      "seed {}, {}, {}x{}, {} steps{}{}{}{}{}{}", options.seed, options.shape, options.nodes, options.ranks_per_node,
      options.steps, options.plugin ? ", plugin" : "",
      options.attach_share > 0 ? options.marked || options.plugin ? ", attached late" : ", attached late, old NCCL"
                               : "",
      options.clock_error_ms > 0 ? fmt::format(", clocks {:.0f} ms", options.clock_error_ms) : "",
      options.cut_share > 0 ? fmt::format(", cut at {:.0f} %", 100 * options.cut_share) : "",
      options.tcp ? ", tcp" : "", options.waits ? "" : ", no waits");
  for (const Fault& fault : options.faults) {
    text += fmt::format(", {} rank {}", simulation::cause_of(fault.kind), fault.rank);
    if (has_dose(fault.kind) || fault.kind == FaultKind::kProcessStopped) {
      text += fmt::format(" {:.0f} ms", fault.ms);
    }
  }
  return text;
}

Result<ScoredJob> score_simulated(int64_t number, const JobOptions& options, const Explain& explain,
                                  const GateOf& gate_of) {
  const int64_t start_ns = monotonic_now_ns();
  const Job job(options);
  MemorySource source;
  job.record_all(source);
  ScoredJob scored;
  ST_ASSIGN(scored.report, explain(source));
  scored.result.draw = {.number = number,
                        .setting = setting_of(options),
                        .kind = kind_of(options),
                        .workload = "simulated:" + options.shape,
                        .arguments = {text_of(options)}};
  ST_ASSIGN(const TruthRead truth, read_truth(to_json(truth_of(job))));
  if (truth.faults.size() < truth.planned) {
    scored.result.problem = "the job ended before its fault";
  } else {
    scored.result.score = score_of(job, truth, scored.report, gate_of);
  }
  scored.result.seconds = static_cast<double>(monotonic_now_ns() - start_ns) / static_cast<double>(kNsPerSecond);
  return scored;
}

}  // namespace stalltrace::lab
