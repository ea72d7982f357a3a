// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/batches/batches.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "analysis/thresholds/stalls.h"

namespace stalltrace::analysis {
namespace {

/// True if the call's end is that of a wait for all calls before it, so that several calls may share it.
bool ends_with_others(const Call& call) {
  return call.present && call.duration_us != kOpenDuration &&
         (call.completion == Completion::kSync || call.completion == Completion::kNetwork);
}

/// Successive calls of one sequence that have one end.
struct Run {
  uint32_t sequence = 0;
  size_t first = 0;
  size_t last = 0;
  int64_t end_ns = 0;
  Interval arrivals{0, 0};  // from the first arrival to the last
};

bool same_end(int64_t a_ns, int64_t b_ns) { return std::abs(a_ns - b_ns) < kSameEndNs; }

/// The first run at or after call `from`; none if there is none.
std::optional<Run> next_run(const std::vector<CallSequence>& sequences, uint32_t index, size_t from) {
  const std::vector<Call>& calls = sequences[index].calls;
  while (from < calls.size() && !ends_with_others(calls[from])) {
    ++from;
  }
  if (from == calls.size()) {
    return std::nullopt;
  }
  Run run{index, from, from, calls[from].end_ns(), {calls[from].arrival_ns, calls[from].arrival_ns}};
  for (size_t i = from + 1; i < calls.size(); ++i) {
    if (!calls[i].present) {
      continue;
    }
    if (!ends_with_others(calls[i]) || !same_end(calls[i].end_ns(), run.end_ns)) {
      break;
    }
    run.last = i;
    run.arrivals.from_ns = std::min(run.arrivals.from_ns, calls[i].arrival_ns);
    run.arrivals.to_ns = std::max(run.arrivals.to_ns, calls[i].arrival_ns);
  }
  return run;
}

void mark(std::vector<CallSequence>& sequences, const std::vector<Run>& batch) {
  Interval arrivals = batch.front().arrivals;
  for (const Run& run : batch) {
    arrivals = {std::min(arrivals.from_ns, run.arrivals.from_ns), std::max(arrivals.to_ns, run.arrivals.to_ns)};
  }
  if (arrivals.length() <= kStallFloorNs) {
    return;
  }
  for (const Run& run : batch) {
    CallSequence& sequence = sequences[run.sequence];
    sequence.batched = true;
    for (size_t i = run.first; i < run.last; ++i) {
      sequence.calls[i].batch = BatchPart::kInside;
    }
    sequence.calls[run.last].batch = BatchPart::kLast;
  }
}

/// Marks the batches of one process, whose sequences are `own`.
void mark_process(std::vector<CallSequence>& sequences, const std::vector<uint32_t>& own) {
  const auto later = [](const Run& a, const Run& b) { return a.end_ns > b.end_ns; };
  std::priority_queue<Run, std::vector<Run>, decltype(later)> next(later);
  const auto push = [&](uint32_t sequence, size_t from) {
    if (const std::optional<Run> run = next_run(sequences, sequence, from)) {
      next.push(*run);
    }
  };
  for (const uint32_t sequence : own) {
    push(sequence, 0);
  }
  std::vector<Run> batch;
  while (!next.empty()) {
    const Run run = next.top();
    next.pop();
    if (!batch.empty() && !same_end(batch.front().end_ns, run.end_ns)) {
      mark(sequences, batch);
      batch.clear();
    }
    batch.push_back(run);
    push(run.sequence, run.last + 1);
  }
  if (!batch.empty()) {
    mark(sequences, batch);
  }
}

}  // namespace

int64_t first_in_batch(const CallSequence& sequence, int64_t number) {
  const int64_t end_ns = sequence.call_at(number)->end_ns();
  const Call* before = sequence.call_at(number - 1);
  while (before != nullptr && before->batch == BatchPart::kInside && same_end(before->end_ns(), end_ns)) {
    before = sequence.call_at(--number - 1);
  }
  return number;
}

void mark_batches(std::vector<CallSequence>& sequences) {
  std::unordered_map<MemberIndex, std::vector<uint32_t>> processes;
  for (uint32_t i = 0; i < sequences.size(); ++i) {
    processes[sequences[i].member].push_back(i);
  }
  for (const auto& [member, own] : processes) {
    mark_process(sequences, own);
  }
}

BatchBegin begin_of(const Timeline& timeline, const Instance& instance) {
  BatchBegin begin{instance.number, kForever};
  for (const Arrival& seen : instance.seen) {
    const CallSequence& sequence = timeline.sequences()[seen.sequence];
    const int64_t number = first_in_batch(sequence, instance.number);
    begin.number = std::min(begin.number, number);
    begin.time_ns = std::min(begin.time_ns, sequence.call_at(number)->arrival_ns);
  }
  return begin;
}

std::optional<BatchStep> step_of(const Timeline& timeline, const Instance& instance) {
  std::optional<BatchStep> step;
  int64_t begin_ns = kForever;
  for (const Arrival& seen : instance.seen) {
    const CallSequence& sequence = timeline.sequences()[seen.sequence];
    if (seen.batch != BatchPart::kLast) {
      continue;
    }
    const int64_t number = first_in_batch(sequence, instance.number);
    const int64_t end_ns = seen.end_ns;
    const Call* before = sequence.call_at(number - 1);
    begin_ns = std::min(begin_ns, sequence.call_at(number)->arrival_ns);
    if (before == nullptr || before->end_ns() > end_ns) {
      continue;
    }
    const int64_t period_ns = end_ns - before->end_ns();
    if (!step || period_ns < step->period_ns) {
      step = {.period_ns = period_ns, .calls = instance.number - number + 1};
    }
  }
  if (step) {
    step->begin_ns = begin_ns;
  }
  return step;
}

int64_t count_ended_with_later_ones(const Timeline& timeline) {
  int64_t count = 0;
  for (const CallSequence& sequence : timeline.sequences()) {
    count += !sequence.batched ? 0 : std::ranges::count_if(sequence.calls, [](const Call& call) {
      return call.batch == BatchPart::kInside && call.completion == Completion::kSync;
    });
  }
  return count;
}

int64_t count_judged(const Timeline& timeline, uint32_t index) {
  const Group& group = timeline.groups()[index];
  int64_t count = 0;
  for (const NumberRange& numbers : numbers_of_instances(timeline, group)) {
    count += numbers.end - numbers.begin;
  }
  if (std::none_of(group.sequences.begin(), group.sequences.end(),
                   [&](uint32_t sequence) { return timeline.sequences()[sequence].batched; })) {
    return count;
  }
  Instance instance;
  for_each_instance(timeline, index, instance, [&] { count -= instance.batch == BatchPart::kInside ? 1 : 0; });
  return count;
}

}  // namespace stalltrace::analysis
