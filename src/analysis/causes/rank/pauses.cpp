// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/rank/pauses.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "analysis/thresholds/ranks.h"
#include "analysis/timeline/batches/batches.h"
#include "analysis/timeline/batches/steps.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

/// The number of judged instances of the stalls' communicators.
int64_t instances_of(const AnalysisContext& context, const std::vector<const Stall*>& stalls) {
  std::set<uint32_t> communicators;
  for (const Stall* stall : stalls) {
    communicators.insert(stall->group);
  }
  int64_t instances = 0;
  for (const uint32_t communicator : communicators) {
    instances += count_judged(context.timeline, communicator);
  }
  return instances;
}

int64_t calls_of(const AnalysisContext& context, MemberIndex member) {
  int64_t calls = 0;
  for (const uint32_t sequence : context.timeline.sequences_of(member)) {
    calls += static_cast<int64_t>(context.timeline.sequences()[sequence].calls.size());
  }
  return calls;
}

}  // namespace

IntervalSet lost_in(const AnalysisContext& context, const std::vector<const Stall*>& stalls) {
  std::vector<Interval> lost;
  for (const Stall* stall : stalls) {
    lost.push_back(context.judged ? intersect(stall->lost(), *context.judged) : stall->lost());
  }
  return IntervalSet(std::move(lost));
}

std::vector<const Stall*> longest_stalls(const AnalysisContext& context, const CauseGroup& group) {
  std::vector<const Stall*> longest = group.stalls;
  std::ranges::stable_sort(longest, std::greater{}, &Stall::lost_ns);
  const auto enough = static_cast<int64_t>(kRareWorkShare * static_cast<double>(group.lost.total_ns()));
  const auto first = [&](size_t count) {
    return std::vector<const Stall*>(longest.begin(), longest.begin() + static_cast<std::ptrdiff_t>(count));
  };
  size_t few = 0;
  for (size_t many = longest.size(); few < many;) {  // the fewest that hold enough
    const size_t middle = (few + many) / 2;
    if (lost_in(context, first(middle)).total_ns() < enough) {
      few = middle + 1;
    } else {
      many = middle;
    }
  }
  const IntervalSet taken = lost_in(context, first(few));
  const auto rest = longest.begin() + static_cast<std::ptrdiff_t>(few);
  const auto others = std::stable_partition(rest, longest.end(), [&](const Stall* stall) {
    return share_of(taken.covered_ns(stall->lost()), stall->lost().length()) >= kRareWorkShare;
  });
  longest.erase(others, longest.end());
  return longest;
}

int64_t steps_of(const AnalysisContext& context, const CauseGroup& group, MemberIndex member) {
  const int64_t instances = instances_of(context, group.stalls);
  const std::optional<int64_t> calls = context.settling.calls_of_step(member);
  if (!calls || *calls == 1) {
    return instances;
  }
  return std::min(instances, calls_of(context, member) / *calls);
}

bool is_rare_pause(const AnalysisContext& context, const CauseGroup& group, MemberIndex member) {
  std::vector<const Stall*> stalls = group.stalls;
  std::ranges::stable_sort(stalls, {}, [](const Stall* stall) { return stall->window.from_ns; });
  int64_t pauses = 0;
  int64_t all_ns = 0;
  int64_t in_pauses_ns = 0;
  for (size_t first = 0; first < stalls.size();) {
    // After a long pause a rank is behind for the rest of its step: the others have done all that does not need it.
    size_t next = first;
    int64_t longest_ns = 0;
    int64_t sum_ns = 0;
    int64_t to_ns = stalls[first]->window.from_ns;
    for (; next < stalls.size() && stalls[next]->window.from_ns - to_ns < kLongPauseNs; ++next) {
      if (next > first && stalls[next]->lost_ns >= kLongPauseNs && stalls[next]->window.from_ns >= to_ns) {
        break;  // the next pause: steps may be short
      }
      longest_ns = std::max(longest_ns, stalls[next]->lost_ns);
      // The collectives of one step may all wait for one pause.
      sum_ns += std::max<int64_t>(0, stalls[next]->window.to_ns - std::max(to_ns, stalls[next]->lost().from_ns));
      to_ns = std::max(to_ns, stalls[next]->window.to_ns);
    }
    const bool one_pause = longest_ns >= kLongPauseNs && sum_ns <= 2 * longest_ns;
    pauses += one_pause ? 1 : 0;
    in_pauses_ns += one_pause ? sum_ns : 0;
    all_ns += sum_ns;
    first = next;
  }
  // A rank that is late in most steps of a short recording, or of a live window, does not pause now and then.
  const int64_t steps = steps_of(context, group, member);
  const bool few =
      (pauses <= static_cast<int64_t>(kFewPauses) && 2 * pauses <= steps) || share_of(pauses, steps) <= kRareShare;
  return pauses > 0 && few && share_of(in_pauses_ns, all_ns) >= kRareWorkShare;
}

void describe_pauses(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  if (group.rare) {
    finding.evidence.push_back(
        {"collective",
         group.instances,
         fmt::format("it was late in {} of {}, for up to {}: as healthy jobs are for an evaluation, a checkpoint or a "
                     "compilation",
                     group.instances, count_of(steps_of(context, group, group.location.culprit), "step"),
                     format_duration(group.longest_ns)),
         {}});
  }
}

std::optional<int64_t> step_length_ns(const AnalysisContext& context, MemberIndex member) {
  const std::optional<int64_t> step = context.settling.calls_of_step(member);
  const int64_t calls = calls_of(context, member);
  if (!step || *step == 1 || calls < *step) {
    return std::nullopt;
  }
  return std::max<int64_t>(1, context.timeline.span().length() / (calls / *step));
}

int64_t steps_with_stalls(const AnalysisContext& context, const CauseGroup& group) {
  const std::optional<int64_t> step_ns = step_length_ns(context, group.location.culprit);
  std::set<int64_t> steps;
  for (const Stall* stall : group.stalls) {
    steps.insert(step_ns ? stall->window.to_ns / *step_ns : static_cast<int64_t>(steps.size()));
  }
  return static_cast<int64_t>(steps.size());
}

}  // namespace stalltrace::analysis
