// SPDX-License-Identifier: Apache-2.0
// Who was late in a step that one synchronisation ended, whatever the clocks of the hosts show: the synchronisation
// before it ended for all ranks with the same collective, at the same moment, and from there each rank's own clock
// counts.
#pragma once

#include <optional>
#include <span>

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

/// How late the rank of this sequence ordinarily is at the end of a step: the quantile kBaselineQuantile, as of the
/// steps themselves. 0 if it is late in fewer; none of fewer than kBaselineInstances steps.
std::optional<int64_t> usual_lateness_ns(const Timeline& timeline, std::span<const Clock::Known> clocks, uint32_t group,
                                         uint32_t sequence);

}  // namespace stalltrace::analysis
