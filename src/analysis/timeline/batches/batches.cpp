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

bool same_end(int64_t a_ns, int64_t b_ns) { return std::abs(a_ns - b_ns) < kSameEndNs; }

/// Successive calls of one sequence that have one end.
class Run {
 public:
  explicit Run(CallSequence& sequence) : sequence_(&sequence) {}

  /// Goes on to the next run; false at the sequence's end.
  bool next() {
    const std::vector<Call>& calls = sequence_->calls;
    first_ = behind_;
    while (first_ < calls.size() && !ends_with_others(calls[first_])) {
      ++first_;
    }
    if (first_ == calls.size()) {
      return false;
    }
    last_ = first_;
    end_ns_ = calls[first_].end_ns();
    arrivals_ = {calls[first_].arrival_ns, calls[first_].arrival_ns};
    for (behind_ = first_ + 1; behind_ < calls.size(); ++behind_) {
      const Call& call = calls[behind_];
      if (!call.present) {
        continue;
      }
      if (!ends_with_others(call) || !same_end(call.end_ns(), end_ns_)) {
        break;
      }
      last_ = behind_;
      arrivals_ = {std::min(arrivals_.from_ns, call.arrival_ns), std::max(arrivals_.to_ns, call.arrival_ns)};
    }
    return true;
  }

  [[nodiscard]] int64_t end_ns() const { return end_ns_; }
  /// From the first arrival to the last.
  [[nodiscard]] const Interval& arrivals() const { return arrivals_; }
  void mark() const {
    sequence_->batched = true;
    for (size_t i = first_; i < last_; ++i) {
      sequence_->calls[i].batch = BatchPart::kInside;
    }
    sequence_->calls[last_].batch = BatchPart::kLast;
  }

 private:
  CallSequence* sequence_;
  size_t first_ = 0;
  size_t last_ = 0;
  size_t behind_ = 0;
  int64_t end_ns_ = 0;
  Interval arrivals_{0, 0};
};

/// Runs of one process that have one end.
class Batch {
 public:
  /// Marks the batch that `run` does not belong to, and begins one with it.
  void add(const Run& run) {
    if (runs_.empty() || !same_end(end_ns_, run.end_ns())) {
      mark();
      runs_.clear();
      end_ns_ = run.end_ns();
      arrivals_ = run.arrivals();
    }
    arrivals_ = {std::min(arrivals_.from_ns, run.arrivals().from_ns), std::max(arrivals_.to_ns, run.arrivals().to_ns)};
    runs_.push_back(run);
  }
  void mark() const {
    if (!runs_.empty() && arrivals_.length() > kStallFloorNs) {
      std::ranges::for_each(runs_, &Run::mark);
    }
  }

 private:
  std::vector<Run> runs_;
  int64_t end_ns_ = 0;
  Interval arrivals_{0, 0};
};

/// Marks the batches of one process, whose sequences are `own`.
void mark_process(std::vector<CallSequence>& sequences, const std::vector<uint32_t>& own) {
  std::vector<Run> runs;                    // the next one of each sequence
  using Next = std::pair<int64_t, size_t>;  // end of a run, and its position in `runs`
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  for (const uint32_t sequence : own) {
    if (Run run(sequences[sequence]); run.next()) {
      next.emplace(run.end_ns(), runs.size());
      runs.push_back(run);
    }
  }
  Batch batch;
  while (!next.empty()) {
    const size_t earliest = next.top().second;
    next.pop();
    Run& run = runs[earliest];
    // The next run of the same sequence is mostly the next one of all: it does not go through the queue.
    bool more = true;
    while (more && (next.empty() || run.end_ns() <= next.top().first)) {
      batch.add(run);
      more = run.next();
    }
    if (more) {
      next.emplace(run.end_ns(), earliest);
    }
  }
  batch.mark();
}

}  // namespace

int64_t first_in_batch(const CallSequence& sequence, int64_t number) {
  // Batches were marked by the host's own clock. Where it drifts, durations were rounded anew since then.
  constexpr int64_t kSameMovedEndNs = kSameEndNs + kNsPerUs;
  const int64_t end_ns = sequence.call_at(number)->end_ns();
  const Call* before = sequence.call_at(number - 1);
  while (before != nullptr && before->batch == BatchPart::kInside &&
         std::abs(before->end_ns() - end_ns) <= kSameMovedEndNs) {
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
