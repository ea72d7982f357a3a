// SPDX-License-Identifier: Apache-2.0
// Baselines of a recording: how long transfers of one class take, how long a Recv waits for its Send, how far arrivals
// scatter.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/stalls/baseline.h"
#include "analysis/stalls/find_stalls.h"
#include "analysis/stalls/reference.h"
#include "analysis/stalls/stall.h"
#include "analysis/timeline/batches/batches.h"
#include "analysis/timeline/instance.h"

namespace stalltrace::analysis {

/// True if the instance's transfer counts for a baseline: it ended, not inside of a batch, and its communicator had
/// warmed up.
bool counts_for_baseline(const Timeline& timeline, const Instance& instance);
/// Of an instance that is the last of a batch; none of others.
std::optional<BatchStep> step_before(const Timeline& timeline, const Instance& instance);

/// What a step cost that ended with a batch, whatever its calls seem to have taken.
struct StepLoss {
  BatchStep step;
  int64_t usual_ns = 0;       // how long steps of as many calls take
  int64_t lost_ns = 0;        // what this one took longer; 0: no more than they scatter
  bool few = false;           // too few steps for a baseline: lost_ns is more than kNoStepBaselineFloorNs, or 0
  bool by_reference = false;  // what is usual is that of another run, which was right
};

class Baselines {
 public:
  /// Reads every instance once. About the options' watched instance watched_spread() is asked. Where what is usual here
  /// is a stall by the options' reference, its baselines replace those of this run. Whether one is, is decided for all
  /// instances of a class on one communicator, of which at least kBaselineInstances are needed: single ones are slow in
  /// healthy runs, too. Transfers at the ends of steps are replaced only where those of their steps are.
  static Baselines learn(const Timeline& timeline, const Cluster& cluster, const StallSearchOptions& options);

  /// The baseline for the instance's communicator, operation and size. What is returned is valid as long as the object.
  [[nodiscard]] const Baseline& transfer(const Timeline& timeline, const Instance& instance) const;
  /// Of the transfers that make the watched instance's baseline; zeros where there are none.
  [[nodiscard]] Spread watched_spread() const { return watched_spread_; }
  /// Of an instance that is the last of a batch; none where no other step of as many calls is known.
  [[nodiscard]] std::optional<StepLoss> step_loss(const Timeline& timeline, const Instance& instance) const;
  /// The same by the steps of this run alone.
  [[nodiscard]] std::optional<StepLoss> own_step_loss(const Timeline& timeline, const Instance& instance) const;
  /// The baseline of the waits of one pair of ranks; null if the group is no pair.
  [[nodiscard]] const Baseline* pair_wait(uint32_t group) const;
  /// Arrivals of this group that are further apart are unusual; none if unknown.
  [[nodiscard]] std::optional<int64_t> spread_limit_ns(uint32_t group) const;
  /// How late the last rank of such a step usually is, if it is judged by the reference; none where it is not.
  [[nodiscard]] std::optional<int64_t> reference_lateness_ns(const Timeline& timeline, const Instance& instance) const;
  /// Of all instances in the options' range that count for a baseline; nothing without a reference.
  [[nodiscard]] const ReferenceUse& reference_use() const { return reference_use_; }
  /// The longest time that devices had other work to do first when all CPUs had called; 0 if that is not known.
  [[nodiscard]] int64_t longest_queue_ns(uint32_t group) const { return groups_[group].longest_queue_ns; }

 private:
  using StepKind = std::pair<uint16_t, int64_t>;  // baseline class, calls in the batch
  static StepKind kind_of(const Timeline& timeline, const Instance& instance, const BatchStep& step);

  struct OfGroup {
    std::map<uint16_t, Baseline> transfers;  // by baseline class
    std::map<StepKind, Baseline> steps;
    std::optional<Baseline> pair_wait;
    std::optional<int64_t> spread_limit_ns;
    int64_t longest_queue_ns = 0;
    std::map<ReferenceClass, Baseline> reference_transfers;  // that replace those of this run
    std::map<ReferenceStepClass, ReferenceStep> reference_steps;
  };
  struct ComparedSample {
    BaselineSample sample;
    int64_t judged = 0;  // of them, in the range
  };
  /// What the instances of a group took, by class.
  struct Compared {
    std::map<ReferenceClass, ComparedSample> transfers;
    std::map<ReferenceStepClass, ComparedSample> steps;
  };
  void count(const ReferenceClass& of, int64_t instances, bool comparable);
  void replace(Compared compared, const Reference& reference, OfGroup& known);
  [[nodiscard]] const ReferenceStep* reference_step(const Timeline& timeline, const Instance& instance) const;
  [[nodiscard]] std::optional<StepLoss> step_loss(const Timeline& timeline, const Instance& instance,
                                                  const ReferenceStep* right) const;

  std::vector<OfGroup> groups_;
  Spread watched_spread_;
  std::optional<ReferenceClasses> classes_;  // with a reference
  ReferenceUse reference_use_;
};

}  // namespace stalltrace::analysis
