// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/search/late.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "analysis/stalls/search/step_lateness.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/clocks.h"
#include "analysis/thresholds/stalls.h"
#include "base/numbers/median.h"

namespace stalltrace::analysis {
namespace {

/// The end of the last collective that kept this rank busy before `time_ns`: any on the same communicator, and on
/// others those whose end the calling thread waited for.
int64_t previous_end_ns(const SearchState& search, uint32_t sequence_index, int64_t time_ns) {
  int64_t latest = std::numeric_limits<int64_t>::min();
  for (const uint32_t other : search.timeline.sequences_of(search.timeline.sequences()[sequence_index].member)) {
    const std::vector<Call>& calls = search.timeline.sequences()[other].calls;
    auto call = std::partition_point(calls.begin(), calls.end(), [&](const Call& c) { return c.arrival_ns < time_ns; });
    for (int64_t n = 0; call != calls.begin() && n < kPreviousCalls; ++n) {
      --call;
      const bool waited = call->completion == Completion::kSync || call->completion == Completion::kCall;
      const int64_t end_ns = call->end_ns();
      if (call->present && end_ns <= time_ns && (waited || other == sequence_index)) {
        latest = std::max(latest, end_ns);
        break;
      }
    }
  }
  return latest;
}

/// The clocks of all participants are known to less than a stall.
bool comparable(const SearchState& search, const Instance& instance) {
  const auto node_of_sequence = [&](const Arrival& seen) {
    return search.cluster.member(search.timeline.sequences()[seen.sequence].member).node_id;
  };
  const NodeId last = node_of_sequence(instance.seen.back());
  return std::all_of(instance.seen.begin(), instance.seen.end(), [&](const Arrival& seen) {
    return search.cluster.clock().comparable(node_of_sequence(seen), last);
  });
}

/// The last rank came after all others, whatever the clocks are off. Ranks on the host of the last one have its clock.
bool is_surely_last(const SearchState& search, const Instance& instance) {
  if (search.all_comparable || comparable(search, instance)) {
    return true;
  }
  const std::optional<int64_t> error_ns = clock_error_ns(search, instance);
  const auto host_of = [&](const Arrival& seen) {
    return search.clocks[search.timeline.sequences()[seen.sequence].member].host;
  };
  const Arrival& last = instance.seen.back();
  return error_ns && std::ranges::all_of(instance.seen, [&](const Arrival& seen) {
           return host_of(seen) == host_of(last) || last.arrival_ns - seen.arrival_ns > *error_ns;
         });
}

/// A rank that waits for all others has ended before the last one came, by clocks that only kernels vouch for: they
/// were wrong about them. Nothing else would contradict them (clock_offsets/kernel_clocks.h).
bool kernels_were_wrong(const SearchState& search, const Instance& instance) {
  if (!synchronises(search.timeline.signature(instance.signature).op)) {
    return false;
  }
  const auto node_of = [&](const Arrival& seen) {
    return search.cluster.member(search.timeline.sequences()[seen.sequence].member).node_id;
  };
  const Clock& clock = search.cluster.clock();
  const NodeId last = node_of(instance.seen.back());
  const int64_t allowed_ns = clock_error_ns(search, instance).value_or(0) + kSeenLateNs;
  return std::ranges::any_of(instance.seen, [&](const Arrival& seen) {
    const bool by_kernels =
        clock.host(node_of(seen)) != clock.host(last) &&
        (clock.source(node_of(seen)) == ClockSource::kKernel || clock.source(last) == ClockSource::kKernel);
    return by_kernels && seen.end_ns < instance.last_arrival_ns - allowed_ns;
  });
}

/// How much longer the first rank was inside than the last, each by its own clock: a rank was waited for. 0 where
/// ends are those of a later synchronisation, or ranks do not wait for each other.
int64_t waited_by_own_clocks_ns(const SearchState& search, const Instance& instance) {
  if (!synchronises(search.timeline.signature(instance.signature).op) ||
      (instance.batch != BatchPart::kNone && !instance.by_device)) {
    return 0;
  }
  int64_t longest_ns = 0;
  int64_t shortest_ns = kForever;
  for (const Arrival& seen : instance.seen) {
    if (seen.end_ns == kForever) {
      return 0;
    }
    longest_ns = std::max(longest_ns, seen.end_ns - seen.arrival_ns);
    shortest_ns = std::min(shortest_ns, seen.end_ns - seen.arrival_ns);
  }
  return longest_ns - std::min(longest_ns, shortest_ns);
}

/// Counts a wait for which no rank can be named because the hosts' clocks can't be compared.
void count_unplaced_wait(SearchState& search, const Instance& instance, int64_t limit_ns) {
  if (search.all_comparable || is_warming_up(search.timeline.groups()[instance.group], instance.number) ||
      comparable(search, instance)) {
    return;
  }
  const int64_t waited_ns = waited_by_own_clocks_ns(search, instance);
  const TimeRange range = search.options.range;
  if (waited_ns > limit_ns && instance.last_arrival_ns < range.to_ns && instance.completion_ns >= range.from_ns) {
    UnplacedWaits& waits = search.result.unplaced_waits;
    ++waits.collectives;
    waits.waited_ns += waited_ns;
    waits.longest_ns = std::max(waits.longest_ns, waited_ns);
  }
}

/// The time from which only the last rank keeps the job waiting: the other ranks scatter as well, and waited for each
/// other first. If a second rank is itself late, the time counts from the middle arrival.
int64_t others_here_ns(const Instance& instance) {
  const size_t n = instance.seen.size();
  const int64_t others_ns = n < 2 ? instance.waits_from_ns : instance.seen[n - 2].arrival_ns;
  return others_ns - instance.waits_from_ns <= kStallFloorNs ? others_ns : instance.waits_from_ns;
}

/// How much later the last rank's CPU called than the middle one of the others.
int64_t called_late_ns(const Instance& instance) {
  std::vector<int64_t> others;
  for (size_t i = 0; i + 1 < instance.seen.size(); ++i) {
    others.push_back(instance.seen[i].called_ns);
  }
  return others.empty() ? 0 : instance.seen.back().called_ns - lower_median(std::move(others));
}

/// Devices came late, and the last one's CPU is not the reason: it had called when the others had.
bool late_on_device(const Instance& instance) {
  return instance.by_device &&
         static_cast<double>(called_late_ns(instance)) < kCoverage * static_cast<double>(instance.late_ns());
}

/// How long the others waited for the last device, without what clocks may be off.
int64_t behind_ns(const SearchState& search, const Instance& instance) {
  const int64_t waited_ns = instance.last_arrival_ns - instance.seen[instance.seen.size() - 2].arrival_ns;
  return waited_ns - clock_error_ns(search, instance).value_or(waited_ns);
}

/// Whether another rank was still inside when the last one came. Who sends to others, or to a root, may be done before.
bool any_rank_waited(const SearchState& search, const Instance& instance) {
  if (synchronises(search.timeline.signature(instance.signature).op)) {
    return true;
  }
  const auto others = std::span(instance.seen).first(instance.seen.size() - 1);
  return std::ranges::any_of(others, [&](const Arrival& seen) { return seen.end_ns >= instance.last_arrival_ns; });
}

/// Adds a wait that is no stall by itself to those before it, which together become one.
void add_to_run(SearchState& search, const Instance& instance) {
  const Group& group = search.timeline.groups()[instance.group];
  if (!late_on_device(instance) || group.point_to_point || is_warming_up(group, instance.number) ||
      !is_surely_last(search, instance) || !any_rank_waited(search, instance)) {
    return;
  }
  const CallSequence& last = search.timeline.sequences()[instance.seen.back().sequence];
  const int64_t waited_ns = behind_ns(search, instance);
  if (waited_ns <= kDeviceWaitNs) {
    return;
  }
  SearchState::DeviceRun& run = search.device_run;
  if (run.group != instance.group || run.rank != last.member) {
    run = {.group = instance.group, .rank = last.member, .waited_ns = 0, .waits = {}};
  }
  run.waited_ns += waited_ns;
  run.waits.push_back({instance.last_arrival_ns - waited_ns, instance.last_arrival_ns});
  if (run.waited_ns <= kStallFloorNs) {
    return;
  }
  Verdict verdict{.part = StallPart::kLate, .reason = VerdictReason::kTooLong, .value_ns = run.waited_ns};
  verdict.limit_ns = kStallFloorNs;
  verdict.window = {run.waits.front().from_ns, instance.last_arrival_ns};
  Stall stall = begin_stall(search, instance, verdict);
  stall.lost_ns = std::min(run.waited_ns, stall.window.length());
  stall.suspects = {last.member};
  stall.kind = LateArrival{last.member, last.tid, true};
  const std::vector<Interval> waits = std::exchange(run, {}).waits;
  keep(search, std::move(stall), waits);
}

/// True if a batch's lateness is long by itself, with no other step to compare with: it takes most of the batch, and is
/// not that of a job's first steps. Calls on a communicator that was made before tracing began are matched by their
/// ends, which in one batch are all the same: which of them belong together is not known.
bool is_long_by_itself(const SearchState& search, const Instance& instance) {
  const BatchBegin begin = begin_of(search.timeline, instance);
  const Group& group = search.timeline.groups()[instance.group];
  return group.hash != 0 && !is_settling(group, begin.number) &&
         static_cast<double>(instance.late_ns()) >=
             kCoverage * static_cast<double>(instance.completion_ns - begin.time_ns);
}

/// The calls have not ended, and those before them ended in batches: these are a batch whose synchronisation has not
/// come.
bool ends_are_to_come(const SearchState& search, const Instance& instance) {
  return !instance.completed() && std::ranges::any_of(instance.seen, [&](const Arrival& seen) {
    return seen.open && search.timeline.sequences()[seen.sequence].batched;
  });
}

/// Nothing shows when calls of this communicator end, and the rank that came first called again before the last one
/// came: its calls return at once, and whether its device waited is not known.
bool first_went_on(const SearchState& search, const Instance& instance) {
  const Arrival& first = instance.seen.front();
  const Call* next = search.timeline.sequences()[first.sequence].call_at(instance.number + 1);
  const auto has_ends = [&](const Arrival& seen) {
    return search.timeline.sequences()[seen.sequence].last_ended_seq >= 0;
  };
  return first.open && next != nullptr && next->arrival_ns < instance.last_arrival_ns &&
         std::ranges::none_of(instance.seen, has_ends);
}

/// Why lateness within a batch is not known to have cost anything; none where it has. Without a baseline of its step
/// only long lateness has: CPUs run ahead of their devices, and not by the same time.
std::optional<VerdictReason> reason_in_batch(const SearchState& search, const Instance& instance,
                                             const std::optional<StepLoss>& step) {
  if (instance.batch == BatchPart::kInside || ends_are_to_come(search, instance)) {
    return VerdictReason::kInBatch;
  }
  if (first_went_on(search, instance)) {
    return VerdictReason::kEndUnknown;
  }
  if (instance.batch == BatchPart::kNone) {
    return std::nullopt;
  }
  if (step && !step->few) {
    return step->lost_ns == 0 ? std::optional(VerdictReason::kStepAsUsual) : std::nullopt;
  }
  const bool lost =
      instance.late_ns() > kNoStepBaselineFloorNs && (step ? step->lost_ns > 0 : is_long_by_itself(search, instance));
  return lost ? std::nullopt : std::optional(VerdictReason::kStepUnknown);
}

/// The reason for an instance whose last rank came after all others but within the limit.
VerdictReason reason_below(const Baseline* pair, int64_t late_ns) {
  if (pair == nullptr || late_ns <= kStallFloorNs) {
    return VerdictReason::kBelowLimit;
  }
  return pair->known ? VerdictReason::kPairUsual : VerdictReason::kNoBaseline;
}

/// What the step lost for which its last rank may be to blame. That rank may be why another run shows all steps to be
/// slow if it is later than ranks are there by most of what they lost. Otherwise something else makes them slow, and
/// hides lateness that costs nothing: only this run's steps show whether this one's did.
std::optional<StepLoss> loss_by_lateness(const SearchState& search, const Instance& instance) {
  std::optional<StepLoss> step = search.baselines.step_loss(search.timeline, instance);
  if (!step || !step->by_reference) {
    return step;
  }
  const int64_t right_ns = search.baselines.reference_lateness_ns(search.timeline, instance).value_or(0);
  const auto later_ns = static_cast<double>(instance.late_ns() - right_ns);
  return later_ns >= kCoverage * static_cast<double>(step->lost_ns)
             ? step
             : search.baselines.own_step_loss(search.timeline, instance);
}

/// How much later than usual the last rank of a step was. All of it where what is usual is not known. What is usual in
/// a step that was compared with another run's is what it was there.
int64_t later_than_usual_ns(SearchState& search, const Instance& instance, bool by_reference) {
  const uint32_t sequence = instance.seen.back().sequence;
  const auto [known, is_new] = search.usual_lateness_ns.try_emplace(sequence);
  if (is_new) {
    known->second = search.usual_lateness.of(search.timeline, search.clocks, instance.group, sequence);
  }
  const int64_t usual_ns = known->second.value_or(0);
  const std::optional<int64_t> right_ns =
      by_reference ? search.baselines.reference_lateness_ns(search.timeline, instance) : std::nullopt;
  return instance.late_ns() - std::min(usual_ns, right_ns.value_or(usual_ns));
}

/// Moves the stall to where the last rank lost the time: before its first call in the step, if it was as late there.
void move_to_first_call(const StepLateness& lateness, Stall& stall) {
  if (static_cast<double>(lateness.first_late_ns) >= kCoverage * static_cast<double>(lateness.instance.late_ns())) {
    const int64_t earlier_ns = stall.window.to_ns - std::min(stall.window.to_ns, lateness.first_call_ns);
    stall.window = {stall.window.from_ns - earlier_ns, stall.window.to_ns - earlier_ns};
  }
}

/// How late a rank may be after the warm-up: `pair` is the usual wait of a pair for Send and Recv, else null.
int64_t usual_limit_ns(const Baseline* pair) { return pair == nullptr ? kStallFloorNs : pair->limit_ns; }

/// `lateness`: of the step that ends with the instance, which is then `lateness->instance`; none if it is no step, or
/// if only the hosts' clocks show who was late.
void judge(SearchState& search, const Instance& instance, const std::optional<StepLateness>& lateness) {
  const Baseline* pair = search.baselines.pair_wait(instance.group);
  const int64_t late_ns = instance.late_ns();
  const int64_t limit_ns = usual_limit_ns(pair);
  Verdict verdict{.part = StallPart::kLate, .value_ns = late_ns, .limit_ns = limit_ns};
  verdict.window = {instance.waits_from_ns, instance.last_arrival_ns};
  const auto declined = [&](VerdictReason reason) {
    verdict.reason = reason;
    decline(search, instance, verdict);
  };
  if (late_ns <= limit_ns) {
    add_to_run(search, instance);
    if (!lateness) {
      count_unplaced_wait(search, instance, limit_ns);
    }
    return declined(reason_below(pair, late_ns));
  }
  verdict.limit_ns = late_limit_ns(search, instance);
  if (late_ns < warm_up_floor_ns(search, instance)) {
    return declined(VerdictReason::kWarmingUp);
  }
  const bool certain = lateness || (is_surely_last(search, instance) && !kernels_were_wrong(search, instance) &&
                                    late_ns - clock_error_ns(search, instance).value_or(late_ns) > limit_ns);
  if (!certain) {
    add_to_run(search, instance);
    count_unplaced_wait(search, instance, limit_ns);
    return declined(VerdictReason::kClockUncertain);
  }
  if (!any_rank_waited(search, instance)) {
    return declined(VerdictReason::kNoRankWaited);
  }
  const bool on_device = late_on_device(instance);
  if (on_device && pair != nullptr) {
    return declined(VerdictReason::kPairUsual);
  }
  const std::optional<StepLoss> step = loss_by_lateness(search, instance);
  if (const std::optional<VerdictReason> reason = reason_in_batch(search, instance, step)) {
    verdict.limit_ns = *reason == VerdictReason::kStepUnknown ? kNoStepBaselineFloorNs : verdict.limit_ns;
    return declined(*reason);
  }
  const int64_t unusual_ns = lateness ? later_than_usual_ns(search, instance, step && step->by_reference) : late_ns;
  if (unusual_ns <= limit_ns) {
    verdict.value_ns = unusual_ns;
    return declined(VerdictReason::kStepAsUsual);
  }
  const CallSequence& last = search.timeline.sequences()[instance.seen.back().sequence];
  const int64_t usual_to_ns = instance.waits_from_ns + (pair == nullptr ? 0 : pair->usual_ns);
  const int64_t from_ns =
      std::max(usual_to_ns, previous_end_ns(search, instance.seen.back().sequence, instance.last_arrival_ns));
  if (instance.last_arrival_ns - from_ns <= kStallFloorNs) {
    verdict.value_ns = instance.last_arrival_ns - from_ns;
    verdict.limit_ns = kStallFloorNs;
    return declined(VerdictReason::kInPreviousCall);
  }
  verdict.reason = VerdictReason::kTooLong;
  Stall stall = begin_stall(search, instance, verdict);
  stall.window.from_ns = std::max(from_ns, others_here_ns(instance));
  if (step) {  // the CPUs may have been ahead of their devices: it cost no more than the step took longer
    stall.window.from_ns = std::max(stall.window.from_ns, stall.window.to_ns - std::min(step->lost_ns, unusual_ns));
    stall.step = BatchLoss{.calls = step->step.calls, .took_ns = step->step.period_ns, .usual_ns = step->usual_ns};
    stall.by_reference = step->by_reference;
  }
  stall.lost_ns = stall.window.length();
  if (instance.by_device && !on_device) {  // the same time, where its CPU lost it
    const int64_t earlier_ns = stall.window.to_ns - std::min(stall.window.to_ns, instance.seen.back().called_ns);
    stall.window = {stall.window.from_ns - earlier_ns, stall.window.to_ns - earlier_ns};
  }
  if (lateness) {
    move_to_first_call(*lateness, stall);
  }
  stall.suspects = {last.member};
  stall.kind = LateArrival{last.member, last.tid, on_device};
  keep(search, std::move(stall));
}

}  // namespace

int64_t late_limit_ns(const SearchState& search, const Instance& instance) {
  return std::max(usual_limit_ns(search.baselines.pair_wait(instance.group)), warm_up_floor_ns(search, instance));
}

void judge_late_arrival(SearchState& search, const Instance& instance) {
  const std::optional<StepLateness> lateness = step_lateness(search.timeline, search.clocks, instance);
  judge(search, lateness ? lateness->instance : instance, lateness);
}

}  // namespace stalltrace::analysis
