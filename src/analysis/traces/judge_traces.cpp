// SPDX-License-Identifier: Apache-2.0
#include "analysis/traces/judge_traces.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "analysis/thresholds/traces.h"
#include "base/numbers/median.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kCollectivesKept = 8;  // of a trace
constexpr size_t kStepsNamed = 4;
constexpr size_t kRanksNamed = 16;

struct Step {
  int64_t step = 0;
  int64_t duration_ns = 0;
  int64_t compute_ns = 0;
  int64_t exposed_ns = 0;
  int64_t idle_ns = 0;
};

struct Trace {
  TraceProfile row;
  std::vector<Step> steps;
  ProfileSummary summary;

  [[nodiscard]] int64_t exposed_ns() const { return row.communication_ns - row.overlap_ns; }
  /// Of the whole, a step's share; without steps the whole.
  [[nodiscard]] int64_t per_step(int64_t whole_ns) const { return whole_ns / std::max<int64_t>(row.steps, 1); }
};

std::string name_of(const Trace& trace) {
  return trace.row.rank ? fmt::format("rank {}", *trace.row.rank) : trace.row.file;
}

void summarize(Trace& trace, std::vector<TraceCollective> collectives) {
  const TraceProfile& row = trace.row;
  ProfileSummary& summary = trace.summary;
  summary.file = row.file;
  summary.rank = row.rank;
  summary.world_size = row.world_size;
  summary.backend = row.backend;
  summary.on_device = row.on_device;
  summary.steps = row.steps;
  summary.duration_ns = row.duration_ns;
  summary.compute_ns = row.compute_ns;
  summary.communication_ns = row.communication_ns;
  summary.exposed_ns = trace.exposed_ns();
  summary.idle_ns = row.idle_ns;
  std::ranges::stable_sort(collectives, std::ranges::greater(), &TraceCollective::exposed_ns);
  if (collectives.size() > kCollectivesKept) {
    summary.more_collectives = static_cast<int64_t>(collectives.size() - kCollectivesKept);
    collectives.resize(kCollectivesKept);
  }
  summary.collectives = std::move(collectives);
}

/// What a step has more of than the median step.
std::string longer_part(const Step& step, const std::vector<Step>& all) {
  struct Part {
    std::string_view name;
    int64_t Step::*value;
  };
  std::string longest;
  int64_t most_ns = 0;
  for (const Part& part :
       {Part{"computation", &Step::compute_ns}, Part{"communication that nothing hides", &Step::exposed_ns},
        Part{"neither", &Step::idle_ns}}) {
    std::vector<int64_t> values;
    for (const Step& one : all) {
      values.push_back(one.*part.value);
    }
    const int64_t usual_ns = median(std::move(values));
    if (step.*part.value - usual_ns > most_ns) {
      most_ns = step.*part.value - usual_ns;
      longest =
          fmt::format("; {}: {}, median {}", part.name, format_duration(step.*part.value), format_duration(usual_ns));
    }
  }
  return longest;
}

void add_long_steps(Trace& trace) {
  if (std::ssize(trace.steps) < kLeastSteps) {
    return;
  }
  std::vector<int64_t> durations;
  for (const Step& step : trace.steps) {
    durations.push_back(step.duration_ns);
  }
  const int64_t usual_ns = median(durations);
  size_t found = 0;
  for (const Step& step : trace.steps) {
    if (static_cast<double>(step.duration_ns) <= kOutlierStep * static_cast<double>(usual_ns) ||
        ++found > kStepsNamed) {
      continue;
    }
    trace.summary.remarks.push_back(fmt::format("long step: {} took {}, the median is {}{}", step.step,
                                                format_duration(step.duration_ns), format_duration(usual_ns),
                                                longer_part(step, trace.steps)));
  }
  if (found > kStepsNamed) {
    trace.summary.remarks.push_back(fmt::format("... and {} more long steps", found - kStepsNamed));
  }
}

/// Whether a rank has several traces: the profiler writes one for each of its cycles.
bool has_cycles(const std::vector<Trace*>& traces) {
  std::set<int32_t> ranks;
  return std::ranges::any_of(
      traces, [&](const Trace* trace) { return trace->row.rank && !ranks.insert(*trace->row.rank).second; });
}

/// The traces of other ranks that one is compared with; with `cycles` those of the same time.
std::vector<const Trace*> others_of(const Trace& trace, const std::vector<Trace*>& traces, bool cycles) {
  const auto overlaps = [&](const TraceProfile& other) {
    return other.started_ns < trace.row.started_ns + trace.row.duration_ns &&
           trace.row.started_ns < other.started_ns + other.duration_ns;
  };
  std::vector<const Trace*> others;
  for (const Trace* other : traces) {
    const bool own = other == &trace || (trace.row.rank && other->row.rank == trace.row.rank);
    if (!own && (!cycles || overlaps(other->row))) {
      others.push_back(other);
    }
  }
  return others;
}

/// Collectives end together: who spends the least time in them came last, and the others waited for it.
void add_late_ranks(const std::vector<Trace*>& traces) {
  const auto own = [](const Trace& one) { return one.per_step(one.row.duration_ns - one.exposed_ns()); };
  const auto waits = [](const Trace& one) { return one.per_step(one.row.communication_ns); };
  const auto computes = [](const Trace& one) { return one.per_step(one.row.compute_ns); };
  const auto idles = [](const Trace& one) { return one.per_step(one.row.idle_ns); };
  const bool cycles = has_cycles(traces);
  for (Trace* trace : traces) {
    const std::vector<const Trace*> others = others_of(*trace, traces, cycles);
    if (others.empty()) {
      continue;
    }
    const auto values = [&](auto&& value) {
      std::vector<int64_t> all;
      std::ranges::transform(others, std::back_inserter(all), [&](const Trace* other) { return value(*other); });
      return median(std::move(all));
    };
    const int64_t step_ns = trace->per_step(trace->row.duration_ns);
    const auto least_ns = static_cast<int64_t>(kLateStepShare * static_cast<double>(step_ns));
    const int64_t own_ns = own(*trace);
    const int64_t waits_ns = waits(*trace);
    const int64_t others_own_ns = values(own);
    const int64_t others_wait_ns = values(waits);
    if (least_ns <= 0 || own_ns - others_own_ns < least_ns || others_wait_ns - waits_ns < least_ns) {
      continue;
    }
    const int64_t more_compute_ns = computes(*trace) - values(computes);
    const int64_t more_idle_ns = idles(*trace) - values(idles);
    const std::string_view unit = trace->row.steps > 0 ? " a step" : "";
    std::string why;
    if (more_compute_ns >= more_idle_ns && more_compute_ns > 0) {
      why =
          fmt::format("it computes {} longer{}: more work, or a slower device", format_duration(more_compute_ns), unit);
    } else if (more_idle_ns > 0) {
      why = fmt::format("for {} more{} {}: see what its Python program does then (input, checkpoint, lock)",
                        format_duration(more_idle_ns), unit,
                        trace->row.on_device ? "its device has nothing to do" : "it runs no operator");
    }
    trace->summary.remarks.push_back(fmt::format(
        "late: the others wait for {}. It spends {}{} outside of collectives, the others {} (median), and {} in them, "
        "the others {}{}{}",
        name_of(*trace), format_duration(own_ns), unit, format_duration(others_own_ns), format_duration(waits_ns),
        format_duration(others_wait_ns), why.empty() ? "" : "; ", why));
  }
}

void note_missing(const std::vector<Trace*>& traces, Report& report) {
  std::set<int32_t> ranks;
  int32_t world = 0;
  for (const Trace* trace : traces) {
    if (trace->row.rank) {
      ranks.insert(*trace->row.rank);
    }
    world = std::max(world, trace->row.world_size.value_or(0));
  }
  // A recording may state any world size: its ranks are not counted one by one.
  const int64_t count = world - std::ranges::count_if(ranks, [&](int32_t rank) { return rank >= 0 && rank < world; });
  std::vector<int32_t> missing;
  for (int32_t rank = 0; rank < world && missing.size() < kRanksNamed; ++rank) {
    if (!ranks.contains(rank)) {
      missing.push_back(rank);
    }
  }
  if (count > 0 && !ranks.empty()) {
    report.notes.push_back(fmt::format("profiler traces are of {} of {} ranks; without a trace: {}{}", ranks.size(),
                                       world, fmt::join(missing, ", "), count > std::ssize(missing) ? ", ..." : ""));
  }
}

}  // namespace

Status add_profiles(EventSource& source, Report& report) {
  ST_ASSIGN(const std::vector<TraceProfile> rows, source.trace_profiles());
  if (rows.empty()) {
    return {};
  }
  std::map<NodeId, Trace> traces;
  for (const TraceProfile& row : rows) {
    traces[row.node_id].row = row;
  }
  std::map<NodeId, std::vector<TraceCollective>> collectives;
  ST_ASSIGN(const std::vector<TraceCollective> calls, source.trace_collectives());
  for (const TraceCollective& row : calls) {
    collectives[row.node_id].push_back(row);
  }
  ST_TRY(source.trace_steps({}, [&](const TraceStep& row) {
    const auto trace = traces.find(row.node_id);
    if (trace != traces.end()) {
      trace->second.steps.push_back(
          {row.step, row.duration_ns, row.compute_ns, row.communication_ns - row.overlap_ns, row.idle_ns});
    }
  }));
  std::vector<Trace*> ordered;
  std::map<std::pair<bool, int32_t>, std::vector<Trace*>> jobs;  // what can be compared
  for (auto& [node, trace] : traces) {
    summarize(trace, std::move(collectives[node]));
    add_long_steps(trace);
    ordered.push_back(&trace);
    if (trace.row.communication_ns > 0) {
      jobs[{trace.row.on_device, trace.row.world_size.value_or(0)}].push_back(&trace);
    }
  }
  for (const auto& [job, members] : jobs) {
    add_late_ranks(members);
  }
  std::ranges::stable_sort(ordered, {}, [](const Trace* trace) { return std::pair(trace->row.rank, trace->row.file); });
  note_missing(ordered, report);
  for (Trace* trace : ordered) {
    report.profiles.push_back(std::move(trace->summary));
  }
  return {};
}

}  // namespace stalltrace::analysis
