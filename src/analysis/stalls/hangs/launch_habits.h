// SPDX-License-Identifier: Apache-2.0
// After how many calls a rank synchronises with its device. Calls on a GPU return at once, and a synchronisation that
// the tracer sees at its return only is the end of all of them: a rank whose newest calls have no end either waits in a
// synchronisation, or has stopped on the way to it. Programs synchronise at the same points of each step.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

struct LaunchHabit {
  int64_t launched = 0;         // calls since the rank's last synchronisation, on all communicators
  std::vector<int64_t> before;  // the different numbers of calls that one synchronisation ended before, ascending

  /// True if the rank may wait in a synchronisation: it has synchronised after as many calls before.
  [[nodiscard]] bool may_synchronise() const;
};

/// None if the rank's habit is not known: fewer than kFewestSynchronisations, or too many
/// different numbers of calls were seen for one more to prove anything; if a call outlasted a synchronisation; or if
/// one without an end has not returned: the rank is inside of that. Of calls that ended otherwise, as those of a set-up
/// do, some few are allowed (kSynchronisedToOthers): only what came after them proves the habit. Takes the time to sort
/// the rank's calls.
std::optional<LaunchHabit> launch_habit(const Timeline& timeline, MemberIndex member);

}  // namespace stalltrace::analysis
