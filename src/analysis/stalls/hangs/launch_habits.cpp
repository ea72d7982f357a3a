// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/hangs/launch_habits.h"

#include <algorithm>
#include <limits>
#include <set>

#include "analysis/thresholds/hangs.h"
#include "analysis/thresholds/stalls.h"

namespace stalltrace::analysis {
namespace {

struct Ended {
  int64_t end_ns = 0;
  int64_t arrival_ns = 0;
};

}  // namespace

bool LaunchHabit::may_synchronise() const { return std::ranges::binary_search(before, launched); }

std::optional<LaunchHabit> launch_habit(const Timeline& timeline, MemberIndex member) {
  LaunchHabit habit;
  std::vector<Ended> ended;
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
        continue;
      }
      if (call.end_ns() == kForever) {
        return std::nullopt;
      }
      ended.push_back({.end_ns = call.end_ns(), .arrival_ns = call.arrival_ns});
      if (call.completion != Completion::kSync) {
        ++ended_otherwise;
        otherwise_ns = std::max(otherwise_ns, call.end_ns());
      }
    }
  }
  std::ranges::sort(ended, {}, &Ended::end_ns);
  if (!ended.empty() && first_open_ns < ended.back().end_ns) {
    return std::nullopt;  // not all that it launches is ended by its next synchronisation
  }
  // Earlier calls show further points where it synchronises, but are no proof that there are no others.
  std::set<int64_t> proven;
  int64_t synchronisations = 0;
  size_t proof = 0;
  for (size_t i = 0; i < ended.size();) {
    const size_t first = i;
    bool later = true;
    while (i < ended.size() && ended[i].end_ns - ended[first].end_ns < kSameEndNs) {
      later = later && ended[i].arrival_ns >= otherwise_ns;
      ++i;
    }
    const auto calls = static_cast<int64_t>(i - first);
    habit.before.push_back(calls);
    if (later) {
      proven.insert(calls);
      proof += i - first;
      ++synchronisations;
    }
  }
  std::ranges::sort(habit.before);
  habit.before.erase(std::unique(habit.before.begin(), habit.before.end()), habit.before.end());
  if (habit.launched == 0 || synchronisations < kFewestSynchronisations ||
      proof < kSynchronisedToOthers * ended_otherwise ||
      static_cast<int64_t>(proven.size()) * kFewestSynchronisations > synchronisations) {
    return std::nullopt;
  }
  return habit;
}

}  // namespace stalltrace::analysis
