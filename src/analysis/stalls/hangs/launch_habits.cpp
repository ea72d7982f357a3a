// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/hangs/launch_habits.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "analysis/thresholds.h"

namespace stalltrace::analysis {

bool LaunchHabit::may_synchronise() const { return std::ranges::binary_search(before, launched); }

std::optional<LaunchHabit> launch_habit(const Timeline& timeline, MemberIndex member) {
  LaunchHabit habit;
  std::vector<Interval> synchronised;  // calls that a synchronisation ended
  size_t ended_otherwise = 0;
  int64_t otherwise_ns = std::numeric_limits<int64_t>::min();  // the last end of these
  int64_t first_open_ns = kForever;
  for (const uint32_t index : timeline.sequences_of(member)) {
    const CallSequence& sequence = timeline.sequences()[index];
    for (const Call& call : sequence.calls) {
      if (!call.present || (call.is_open() && sequence.destroyed)) {
        continue;
      }
      if (call.is_open()) {
        if (!call.launched || sequence.aborted || sequence.ends_unseen()) {
          return std::nullopt;
        }
        ++habit.launched;
        first_open_ns = std::min(first_open_ns, call.arrival_ns);
      } else if (call.end_ns() == kForever) {
        return std::nullopt;
      } else if (call.completion != Completion::kSync) {
        ++ended_otherwise;
        otherwise_ns = std::max(otherwise_ns, call.end_ns());
      } else {
        synchronised.push_back({call.arrival_ns, call.end_ns()});
      }
    }
  }
  std::erase_if(synchronised, [&](const Interval& call) { return call.from_ns < otherwise_ns; });
  if (first_open_ns < otherwise_ns || synchronised.size() < kSynchronisedToOthers * ended_otherwise) {
    return std::nullopt;
  }
  std::vector<int64_t> ends_ns;
  std::ranges::transform(synchronised, std::back_inserter(ends_ns), &Interval::to_ns);
  std::ranges::sort(ends_ns);
  if (!ends_ns.empty() && first_open_ns < ends_ns.back()) {
    return std::nullopt;  // not all that it launches is ended by its next synchronisation
  }
  int64_t synchronisations = 0;
  for (size_t i = 0; i < ends_ns.size();) {
    const size_t first = i;
    while (i < ends_ns.size() && ends_ns[i] - ends_ns[first] < kSameEndNs) {
      ++i;
    }
    ++synchronisations;
    habit.before.push_back(static_cast<int64_t>(i - first));
  }
  std::ranges::sort(habit.before);
  habit.before.erase(std::unique(habit.before.begin(), habit.before.end()), habit.before.end());
  if (habit.launched == 0 || synchronisations < kFewestSynchronisations ||
      static_cast<int64_t>(habit.before.size()) * kFewestSynchronisations > synchronisations) {
    return std::nullopt;
  }
  return habit;
}

}  // namespace stalltrace::analysis
