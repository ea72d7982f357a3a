// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/baselines.h"

#include <algorithm>

#include "analysis/thresholds/reference.h"
#include "analysis/thresholds/stalls.h"

namespace stalltrace::analysis {
namespace {

/// How long after the last CPU's call devices had other work to do first, as far as that is known: until they began it,
/// or, of a batch, until the synchronisation.
int64_t queue_ns(const Instance& instance) {
  if (!instance.completed() || (!instance.by_device && instance.batch == BatchPart::kNone)) {
    return 0;
  }
  const int64_t called_ns = std::ranges::max_element(instance.seen, {}, &Arrival::called_ns)->called_ns;
  return (instance.by_device ? instance.last_arrival_ns : instance.completion_ns) - called_ns;
}

/// Where ends are unseen: how long a rank was away from its next call at most. A CPU that is ahead of its device by as
/// much as the queue of launches holds waits inside of a call until the device goes on.
int64_t longest_pause_ns(const Timeline& timeline, const CallSequence& sequence) {
  int64_t longest_ns = 0;
  for (size_t i = 1; sequence.ends_unseen() && i < sequence.calls.size(); ++i) {
    const Call& call = sequence.calls[i];
    const Call& before = sequence.calls[i - 1];
    const int64_t number = sequence.first_number() + static_cast<int64_t>(i) - 1;
    if (call.present && before.present && !is_warming_up(timeline.groups()[sequence.group], number)) {
      longest_ns = std::max(longest_ns, call.arrival_ns - before.arrival_ns);
    }
  }
  return longest_ns;
}

/// True if most instances of this run are stalls by the other one.
bool is_slower(const Baseline& own, const Baseline& right) { return own.usual_ns > right.limit_ns; }

bool is_in(const TimeRange& range, const Instance& instance) {
  return instance.completion_ns >= range.from_ns && instance.waits_from_ns < range.to_ns;
}

}  // namespace

bool counts_for_baseline(const Timeline& timeline, const Instance& instance) {
  return instance.completed() && instance.batch != BatchPart::kInside &&
         !is_warming_up(timeline.groups()[instance.group], instance.number);
}

std::optional<BatchStep> step_before(const Timeline& timeline, const Instance& instance) {
  return instance.batch == BatchPart::kLast && instance.completed() ? step_of(timeline, instance) : std::nullopt;
}

Baselines::StepKind Baselines::kind_of(const Timeline& timeline, const Instance& instance, const BatchStep& step) {
  return {timeline.signature(instance.signature).baseline_class, step.calls};
}

void Baselines::count(const ReferenceClass& of, int64_t instances, bool comparable) {
  if (comparable) {
    reference_use_.comparable += instances;
  } else if (instances > 0) {
    reference_use_.other += instances;
    reference_use_.others[of] += instances;
  }
}

void Baselines::replace(Compared compared, const Reference& reference, OfGroup& known) {
  for (auto& [of, steps] : compared.steps) {
    const Baseline own = Baseline::of_all(steps.sample);
    const ReferenceStep* right = own.known ? reference.step(of) : nullptr;
    count(of.first, steps.judged, right != nullptr);
    if (right == nullptr) {
      continue;
    }
    const auto share_ns = static_cast<int64_t>(kReferenceStepFactor * static_cast<double>(right->period.usual_ns));
    if (own.usual_ns > right->period.usual_ns + std::max(right->period.scatter_ns, share_ns)) {
      known.reference_steps[of] = *right;
    }
  }
  for (auto& [of, transfers] : compared.transfers) {
    const Baseline own = Baseline::of_all(transfers.sample);
    const Baseline* right = own.known ? reference.transfer(of) : nullptr;
    const auto step = known.reference_steps.lower_bound({of, 0});
    const bool in_slow_steps = step != known.reference_steps.end() && step->first.first == of;
    if (!of.ends_step()) {  // whose steps are counted
      count(of, transfers.judged, right != nullptr);
    }
    if (right != nullptr && is_slower(own, *right) && (!of.ends_step() || in_slow_steps)) {
      known.reference_transfers[of] = *right;
    }
  }
}

Baselines Baselines::learn(const Timeline& timeline, const Cluster& cluster, const StallSearchOptions& options) {
  const std::optional<InstanceId>& watched = options.watched;
  const Reference* reference = options.reference;
  Baselines baselines;
  if (reference != nullptr) {
    baselines.classes_.emplace(timeline, cluster);
  }
  baselines.groups_.resize(timeline.groups().size());
  Instance instance;
  for (uint32_t group = 0; group < timeline.groups().size(); ++group) {
    const bool pair = timeline.groups()[group].point_to_point;
    std::map<uint16_t, BaselineSample> transfers;
    std::map<StepKind, BaselineSample> steps;
    std::optional<BaselineSample> spreads;
    std::optional<BaselineSample> pair_waits;  // a Recv waits for its Send by design
    Compared compared;
    OfGroup& known = baselines.groups_[group];
    for (const uint32_t sequence : timeline.groups()[group].sequences) {
      known.longest_queue_ns =
          std::max(known.longest_queue_ns, longest_pause_ns(timeline, timeline.sequences()[sequence]));
    }
    for_each_instance(timeline, group, instance, [&] {
      if (counts_for_baseline(timeline, instance)) {
        transfers[timeline.signature(instance.signature).baseline_class].add(instance.transfer_ns());
        const std::optional<BatchStep> step = step_before(timeline, instance);
        if (step) {
          steps[kind_of(timeline, instance, *step)].add(step->period_ns);
        }
        if (reference != nullptr) {
          const ReferenceClass of = baselines.classes_->of(instance);
          const bool judged = is_in(options.range, instance);
          const auto add = [&](ComparedSample& compared_with, int64_t duration_ns) {
            compared_with.sample.add(duration_ns);
            compared_with.judged += judged ? 1 : 0;
          };
          add(compared.transfers[of], instance.transfer_ns());
          if (step) {
            add(compared.steps[{of, step->calls}], step->period_ns);
          }
        }
        (spreads ? *spreads : spreads.emplace()).add(instance.last_arrival_ns - instance.seen.front().arrival_ns);
        known.longest_queue_ns = std::max(known.longest_queue_ns, queue_ns(instance));
      }
      if (pair) {
        (pair_waits ? *pair_waits : pair_waits.emplace()).add(instance.late_ns());
      }
    });
    if (watched && watched->group == group && read_instance(timeline, group, watched->number, instance)) {
      const auto sample = transfers.find(timeline.signature(instance.signature).baseline_class);
      baselines.watched_spread_ = sample == transfers.end() ? Spread() : sample->second.spread();
    }
    if (reference != nullptr) {
      baselines.replace(std::move(compared), *reference, known);
    }
    for (auto& [kind, sample] : transfers) {
      known.transfers[kind] = Baseline::of(sample);
    }
    for (auto& [kind, sample] : steps) {
      known.steps[kind] = Baseline::of(sample, kFewSteps);
    }
    if (spreads) {
      known.spread_limit_ns = Baseline::of_all(*spreads).limit_ns;
    }
    if (pair_waits) {
      known.pair_wait = Baseline::of_all(*pair_waits);
    }
  }
  return baselines;
}

const Baseline& Baselines::transfer(const Timeline& timeline, const Instance& instance) const {
  static const Baseline kUnknown;
  if (const auto& replaced = groups_[instance.group].reference_transfers; !replaced.empty()) {
    if (const auto found = replaced.find(classes_->of(instance)); found != replaced.end()) {
      return found->second;
    }
  }
  const std::map<uint16_t, Baseline>& transfers = groups_[instance.group].transfers;
  const auto found = transfers.find(timeline.signature(instance.signature).baseline_class);
  return found == transfers.end() ? kUnknown : found->second;
}

const ReferenceStep* Baselines::reference_step(const Timeline& timeline, const Instance& instance) const {
  const auto& replaced = groups_[instance.group].reference_steps;
  const std::optional<BatchStep> step = replaced.empty() ? std::nullopt : step_before(timeline, instance);
  const auto found = step ? replaced.find({classes_->of(instance), step->calls}) : replaced.end();
  return found == replaced.end() ? nullptr : &found->second;
}

std::optional<int64_t> Baselines::reference_lateness_ns(const Timeline& timeline, const Instance& instance) const {
  const ReferenceStep* step = reference_step(timeline, instance);
  return step == nullptr ? std::nullopt : step->lateness_ns;
}

std::optional<StepLoss> Baselines::step_loss(const Timeline& timeline, const Instance& instance) const {
  return step_loss(timeline, instance, reference_step(timeline, instance));
}

std::optional<StepLoss> Baselines::own_step_loss(const Timeline& timeline, const Instance& instance) const {
  return step_loss(timeline, instance, nullptr);
}

std::optional<StepLoss> Baselines::step_loss(const Timeline& timeline, const Instance& instance,
                                             const ReferenceStep* right) const {
  const std::optional<BatchStep> step = step_before(timeline, instance);
  const auto& steps = groups_[instance.group].steps;
  const auto found = step ? steps.find(kind_of(timeline, instance, *step)) : steps.end();
  if (found == steps.end() || !found->second.known) {
    return std::nullopt;
  }
  const Baseline& baseline = right == nullptr ? found->second : right->period;
  const bool few = baseline.count < kBaselineInstances;
  const int64_t longer_ns = step->period_ns - baseline.usual_ns;
  const int64_t ordinary_ns = few ? std::max(kNoStepBaselineFloorNs, baseline.scatter_ns) : baseline.scatter_ns;
  return StepLoss{*step, baseline.usual_ns, longer_ns > ordinary_ns ? longer_ns : 0, few, baseline.by_reference};
}

const Baseline* Baselines::pair_wait(uint32_t group) const {
  const std::optional<Baseline>& wait = groups_[group].pair_wait;
  return wait ? &*wait : nullptr;
}

std::optional<int64_t> Baselines::spread_limit_ns(uint32_t group) const { return groups_[group].spread_limit_ns; }

}  // namespace stalltrace::analysis
