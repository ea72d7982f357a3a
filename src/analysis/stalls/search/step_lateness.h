// SPDX-License-Identifier: Apache-2.0
// Who was late in a step that one synchronisation ended, whatever the clocks of the hosts show: the synchronisation
// before it ended for all ranks with the same collective, at the same moment, and from there each rank's own clock
// counts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "analysis/timeline/clock.h"
#include "analysis/timeline/instance.h"

namespace stalltrace::analysis {

struct StepLateness {
  /// The last instance of the step. Arrivals of other ranks, not their ends, are moved so that the step before ended
  /// for all of them when it did for the one that came last.
  Instance instance;
  int64_t first_call_ns = 0;  // the last rank's first call in the step
  int64_t first_late_ns = 0;  // how much later that was than the middle one of the others
};

/// None unless the instance is the last of all ranks' batches, their batches began with the same number, and the
/// collective before, in which each rank needs every other, was the last of a synchronisation of all of them. None,
/// too, if the clocks (by member) show that these synchronisations did not return at the same moment: a rank that comes
/// to its synchronisation when all is done notes the end then, and would seem to be early in the next step.
std::optional<StepLateness> step_lateness(const Timeline& timeline, std::span<const Clock::Known> clocks,
                                          const Instance& instance);

/// How late ranks ordinarily are at the ends of steps. Holds the steps of one group that were asked for: each is read
/// once for all its ranks.
class UsualLateness {
 public:
  /// Of the rank of this sequence: the quantile kBaselineQuantile, as of the steps themselves. 0 if it is late in
  /// fewer; none of fewer than kBaselineInstances steps.
  std::optional<int64_t> of(const Timeline& timeline, std::span<const Clock::Known> clocks, uint32_t group,
                            uint32_t sequence);
  /// Steps that were read so far.
  [[nodiscard]] int64_t steps_read() const { return steps_read_; }

 private:
  /// When ranks came to the end of a step, moved as in StepLateness. Empty: it is none.
  struct Step {
    std::vector<int64_t> arrivals_ns;                       // sorted
    std::vector<std::pair<uint32_t, int64_t>> by_sequence;  // sorted

    [[nodiscard]] int64_t later_than_others_ns(uint32_t sequence) const;
  };
  const Step& step(const Timeline& timeline, std::span<const Clock::Known> clocks, int64_t number);

  uint32_t group_ = 0xffff'ffff;
  std::map<int64_t, Step> steps_;  // by number
  int64_t steps_read_ = 0;
};

}  // namespace stalltrace::analysis
