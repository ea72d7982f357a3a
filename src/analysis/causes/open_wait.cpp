// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/open_wait.h"

#include <algorithm>
#include <csignal>

#include "analysis/thresholds/hangs.h"
#include "analysis/timeline/instance.h"

namespace stalltrace::analysis {

const Stall& nearest(const CauseGroup& group) {
  const Stall* best = group.stalls.front();
  for (const Stall* stall : group.stalls) {
    if (stall->hung() != best->hung()) {
      best = stall->hung() ? stall : best;
    } else if (stall->root().path.size() < best->root().path.size() ||
               (stall->root().path.size() == best->root().path.size() &&
                stall->window.from_ns < best->window.from_ns)) {
      best = stall;
    }
  }
  return *best;
}

int64_t longest_wait_before_ns(const AnalysisContext& context, const Stall& stall) {
  int64_t longest_ns = 0;
  int64_t searched = 0;
  Instance instance;
  const Group& group = context.timeline.groups()[stall.group];
  const std::vector<NumberRange> ranges = numbers_of_instances(context.timeline, group);
  for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) {
    for (int64_t number = std::min(range->end, stall.number); number-- > range->begin;) {
      if (is_warming_up(group, number) || ++searched > kMostWaitsSearched) {
        return longest_ns;
      }
      if (read_instance(context.timeline, stall.group, number, instance) && !instance.hung) {
        // Where the one that came last may not be recorded, the others wait in what looks like a transfer.
        const bool in_transfer = !group.all_took_part && instance.completed() && instance.batch != BatchPart::kInside;
        const int64_t to_ns = in_transfer ? instance.completion_ns : instance.last_arrival_ns;
        longest_ns = std::max(longest_ns, to_ns - instance.waits_from_ns);
      }
    }
  }
  return longest_ns;
}

namespace {

/// The ranks that wait in the call that the group's stall is about.
std::vector<MemberIndex> waiting_in(const AnalysisContext& context, const CauseGroup& group) {
  const Stall& stall = nearest(group);
  std::vector<MemberIndex> inside;
  for (const uint32_t index : context.timeline.groups()[stall.group].sequences) {
    const CallSequence& sequence = context.timeline.sequences()[index];
    if (sequence.call_at(stall.number) != nullptr) {
      inside.push_back(sequence.member);
    }
  }
  return inside;
}

/// The awaited rank was asked to end after another one had failed, or none had: that it did not come any more proves
/// nothing. But where another one gave up waiting for it, it does.
bool ended_by_another(const AnalysisContext& context, const CauseGroup& group) {
  if (group.location.culprit == kNoMember) {
    return false;
  }
  const Member& awaited = context.cluster.member(group.location.culprit);
  if (!awaited.exit_ns || !was_asked_to_end(awaited.exit_signal, awaited.exit_code)) {
    return false;
  }
  const std::vector<MemberIndex> inside = waiting_in(context, group);
  const std::vector<Member>& members = context.cluster.members();
  bool no_rank_failed = true;
  for (size_t index = 0; index < members.size(); ++index) {
    const Member& other = members[index];
    // A time-out ends a rank by an exit code, or by abort().
    const bool for_waiting = (other.exit_signal.value_or(SIGABRT) == SIGABRT) &&
                             std::ranges::find(inside, static_cast<MemberIndex>(index)) != inside.end();
    if (!for_waiting && other.attempt == awaited.attempt && other.exit_ns && *other.exit_ns < *awaited.exit_ns &&
        failed_by_itself(other)) {
      return true;
    }
    no_rank_failed = no_rank_failed && (other.attempt != awaited.attempt || !failed_by_itself(other));
  }
  return no_rank_failed;
}

}  // namespace

bool processes_ended(const AnalysisContext& context, const CauseGroup& group) {
  const auto ended = [&](MemberIndex member) { return context.cluster.member(member).exit_ns.has_value(); };
  if (group.location.culprit != kNoMember && ended(group.location.culprit)) {
    return true;
  }
  const std::vector<MemberIndex> inside = waiting_in(context, group);
  return !inside.empty() && std::ranges::all_of(inside, ended);
}

int64_t long_wait_ns(const AnalysisContext& context, const CauseGroup& group) {
  return std::max(kBlockedWaitNs, kLongestWaits * longest_wait_before_ns(context, nearest(group)));
}

bool may_still_come(const AnalysisContext& context, const CauseGroup& group, bool busy) {
  if (group.ended_job || (processes_ended(context, group) && !ended_by_another(context, group))) {
    return false;
  }
  const int64_t long_ns = long_wait_ns(context, group);
  return group.longest_ns < long_ns || (busy && group.longest_ns < std::max(kUnprovenWaitNs, long_ns));
}

}  // namespace stalltrace::analysis
