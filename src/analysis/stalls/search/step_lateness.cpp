// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/search/step_lateness.h"

#include <algorithm>
#include <map>
#include <vector>

#include "analysis/thresholds/stalls.h"
#include "analysis/timeline/batches/batches.h"
#include "base/numbers/median.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kStepsHeld = 2 * kStepsSampled;

/// When synchronisations returned, by what the clocks show.
class Returns {
 public:
  void add(const Clock::Known& clock, int64_t time_ns) {
    const auto [known, is_new] = hosts_.try_emplace(clock.host, Interval{time_ns, time_ns});
    Interval& host = known->second;
    host = {std::min(host.from_ns, time_ns), std::max(host.to_ns, time_ns)};
    apart_ns_ = std::max(apart_ns_, host.length());
    if (clock.error_ns) {
      latest_begin_ns_ = std::max(latest_begin_ns_, time_ns - *clock.error_ns);
      earliest_end_ns_ = std::min(earliest_end_ns_, time_ns + *clock.error_ns);
    }
  }
  [[nodiscard]] bool at_one_moment() const {
    return apart_ns_ <= kStallFloorNs &&
           (earliest_end_ns_ == kForever || latest_begin_ns_ - earliest_end_ns_ <= kStallFloorNs);
  }

 private:
  std::map<size_t, Interval> hosts_;
  int64_t apart_ns_ = 0;         // on one host
  int64_t latest_begin_ns_ = 0;  // of the times that are possible
  int64_t earliest_end_ns_ = kForever;
};

}  // namespace

std::optional<StepLateness> step_lateness(const Timeline& timeline, std::span<const Clock::Known> clocks,
                                          const Instance& instance) {
  const Group& group = timeline.groups()[instance.group];
  if (instance.batch != BatchPart::kLast || !instance.completed() || group.hash == 0 || group.point_to_point ||
      instance.seen.size() < 2) {
    return std::nullopt;
  }
  struct Step {
    int64_t before_ns = 0;
    int64_t first_ns = 0;
    Arrival last;
  };
  std::vector<Step> steps;
  Returns returns;
  std::optional<int64_t> first_number;
  for (const Arrival& seen : instance.seen) {
    const CallSequence& sequence = timeline.sequences()[seen.sequence];
    const int64_t number = seen.batch == BatchPart::kLast ? first_in_batch(sequence, instance.number) : -1;
    const Call* before = sequence.call_at(number - 1);
    const bool whole = before != nullptr && before->batch == BatchPart::kLast &&
                       synchronises(timeline.signature(before->signature).op) &&
                       first_number.value_or(number) == number;
    const Call* first = sequence.call_at(number);
    if (!whole || before->end_ns() > first->arrival_ns) {
      return std::nullopt;
    }
    first_number = number;
    steps.push_back({before->end_ns(), first->arrival_ns, seen});
    returns.add(clocks[sequence.member], before->end_ns());
  }
  if (!returns.at_one_moment()) {
    return std::nullopt;
  }
  const auto took = [](const Step& step) { return step.last.arrival_ns - step.before_ns; };
  std::ranges::sort(steps, {}, took);
  const Step& last = steps.back();
  StepLateness found{.instance = instance, .first_call_ns = last.first_ns};
  std::vector<int64_t> others_first;
  for (size_t i = 0; i < steps.size(); ++i) {
    const int64_t moved_ns = last.before_ns - steps[i].before_ns;
    Arrival& arrival = found.instance.seen[i] = steps[i].last;
    arrival.arrival_ns += moved_ns;
    arrival.called_ns += moved_ns;
    if (i + 1 < steps.size()) {
      others_first.push_back(steps[i].first_ns + moved_ns);
    }
  }
  found.first_late_ns = last.first_ns - lower_median(std::move(others_first));
  const std::vector<Arrival>& seen = found.instance.seen;
  found.instance.last_arrival_ns = seen.back().arrival_ns;
  found.instance.waits_from_ns = seen[(seen.size() - 2) / 2].arrival_ns;
  found.instance.completion_ns = std::max(instance.completion_ns, found.instance.last_arrival_ns);
  return found;
}

/// How much later than the middle one of the others, of ranks by their arrivals since the step before.
int64_t UsualLateness::Step::later_than_others_ns(uint32_t sequence) const {
  const auto own = std::ranges::lower_bound(by_sequence, sequence, {}, &std::pair<uint32_t, int64_t>::first);
  if (own == by_sequence.end() || own->first != sequence || arrivals_ns.size() < 2) {
    return 0;
  }
  const auto at = std::ranges::lower_bound(arrivals_ns, own->second) - arrivals_ns.begin();
  const auto middle = static_cast<std::ptrdiff_t>((arrivals_ns.size() - 2) / 2);  // the lower one, of the others
  return own->second - arrivals_ns[static_cast<size_t>(middle < at ? middle : middle + 1)];
}

const UsualLateness::Step& UsualLateness::step(const Timeline& timeline, std::span<const Clock::Known> clocks,
                                               int64_t number) {
  const auto known = steps_.find(number);
  if (known != steps_.end()) {
    return known->second;
  }
  if (steps_.size() >= kStepsHeld) {  // ranks end their steps at different numbers
    steps_.clear();
  }
  ++steps_read_;
  Step& added = steps_[number];
  Instance instance;
  if (read_instance(timeline, group_, number, instance)) {
    if (const std::optional<StepLateness> found = step_lateness(timeline, clocks, instance)) {
      for (const Arrival& seen : found->instance.seen) {
        added.arrivals_ns.push_back(seen.arrival_ns);
        added.by_sequence.emplace_back(seen.sequence, seen.arrival_ns);
      }
      std::ranges::sort(added.arrivals_ns);
      std::ranges::sort(added.by_sequence);
    }
  }
  return added;
}

std::optional<int64_t> UsualLateness::of(const Timeline& timeline, std::span<const Clock::Known> clocks, uint32_t group,
                                         uint32_t sequence) {
  if (group != group_) {
    steps_.clear();
    group_ = group;
  }
  const CallSequence& own = timeline.sequences()[sequence];
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < own.calls.size(); ++i) {
    if (own.calls[i].present && own.calls[i].batch == BatchPart::kLast) {
      numbers.push_back(own.first_number() + static_cast<int64_t>(i));
    }
  }
  std::vector<int64_t> late;
  const size_t sampled = std::min(numbers.size(), kStepsSampled);
  for (size_t i = 0; i < sampled; ++i) {
    const Step& one = step(timeline, clocks, numbers[i * numbers.size() / sampled]);
    if (!one.arrivals_ns.empty()) {
      late.push_back(one.later_than_others_ns(sequence));
    }
  }
  if (static_cast<int64_t>(late.size()) < kBaselineInstances) {
    return std::nullopt;
  }
  const auto quarter =
      late.begin() + static_cast<std::ptrdiff_t>(kBaselineQuantile * static_cast<double>(late.size() - 1));
  std::ranges::nth_element(late, quarter);
  return std::max<int64_t>(0, *quarter);
}

}  // namespace stalltrace::analysis
