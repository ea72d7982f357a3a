// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/search/search_state.h"

#include <algorithm>
#include <csignal>
#include <functional>
#include <tuple>
#include <utility>

#include "analysis/stalls/search/late.h"
#include "analysis/stalls/search/transfer.h"
#include "analysis/thresholds/bounds.h"
#include "analysis/thresholds/hangs.h"
#include "analysis/thresholds/stalls.h"

namespace stalltrace::analysis {
namespace {

/// The part as a stall of a suitable kind, with the ranks that a cause would examine.
Stall as_if_stalled(const SearchState& search, const Instance& instance, const Verdict& verdict) {
  Stall stall = begin_stall(search, instance, verdict);
  stall.lost_ns = stall.window.length();
  if (verdict.part == StallPart::kLate) {
    const CallSequence& last = search.timeline.sequences()[instance.seen.back().sequence];
    stall.kind = LateArrival{last.member, last.tid};
    stall.suspects = {last.member};
  } else if (verdict.part == StallPart::kAbsent) {
    stall.kind = MissingRank{};
  } else {
    const Baseline& baseline = search.baselines.transfer(search.timeline, instance);
    stall.usual_ns = baseline.known ? std::optional(baseline.usual_ns) : std::nullopt;
    stall.by_reference = baseline.by_reference;
    stall.lost_ns -= stall.lost_ns > baseline.usual_ns ? baseline.usual_ns : 0;
    stall.kind = SlowTransfer{};
    stall.suspects = stall.members;
  }
  return stall;
}

}  // namespace

SearchState::SearchState(const Timeline& of_timeline, const Cluster& of_cluster, const JobEnds& of_ends,
                         const StallSearchOptions& with)
    : timeline(of_timeline),
      cluster(of_cluster),
      ends(of_ends),
      options(with),
      baselines(Baselines::learn(of_timeline, of_cluster, with)),
      graph(of_timeline, of_cluster, of_ends),
      mismatches(of_timeline, of_cluster),
      group_waited(of_timeline.groups().size()),
      waited(of_cluster.members().size()),
      all_comparable(of_cluster.clock().all_comparable()) {
  for (const Member& member : of_cluster.members()) {
    clocks.push_back(of_cluster.clock().known(member.node_id));
  }
  result.reference_use = baselines.reference_use();
  Instance instance;
  if (options.watched && read_instance(timeline, options.watched->group, options.watched->number, instance)) {
    const Baseline& baseline = baselines.transfer(timeline, instance);
    result.watched = WatchedInstance{.transfer = baseline,
                                     .transfer_spread = baselines.watched_spread(),
                                     .transfer_limit_ns = transfer_limit_ns(*this, instance),
                                     .late_limit_ns = late_limit_ns(*this, instance),
                                     .warming_up = warm_up_floor_ns(*this, instance) > 0};
  }
}

int64_t warm_up_floor_ns(const SearchState& search, const Instance& instance) {
  return is_warming_up(search.timeline.groups()[instance.group], instance.number) ? kWarmUpFloorNs : 0;
}

Stall begin_stall(const SearchState& search, const Instance& instance, const Verdict& verdict) {
  Stall stall{.group = instance.group, .number = instance.number, .signature = instance.signature, .verdict = verdict};
  stall.window = verdict.window;
  for (const Arrival& seen : instance.seen) {
    stall.members.push_back(search.timeline.sequences()[seen.sequence].member);
  }
  return stall;
}

std::optional<int64_t> clock_error_ns(const SearchState& search, const Instance& instance) {
  const Clock& clock = search.cluster.clock();
  if (clock.hosts() < 2) {
    return 0;
  }
  const auto clock_of = [&](const Arrival& seen) -> const Clock::Known& {
    return search.clocks[search.timeline.sequences()[seen.sequence].member];
  };
  Clock::Known largest;
  Clock::Known next;
  bool several = false;
  bool unknown = false;
  for (const Arrival& seen : instance.seen) {
    const Clock::Known& known = clock_of(seen);
    several = several || known.host != clock_of(instance.seen.front()).host;
    if (!known.error_ns) {
      unknown = true;
    } else if (known.host != largest.host && known.host != next.host) {
      if (known.error_ns > largest.error_ns) {
        next = std::exchange(largest, known);
      } else if (known.error_ns > next.error_ns) {
        next = known;
      }
    }
  }
  if (!several) {
    return 0;  // one clock, wherever it stands
  }
  return unknown ? std::nullopt : std::optional(*largest.error_ns + *next.error_ns);
}

int64_t certain_transfer_ns(const SearchState& search, const Instance& instance) {
  const std::optional<int64_t> error_ns = clock_error_ns(search, instance);
  if (error_ns == 0) {
    return instance.transfer_ns();
  }
  int64_t stay_ns = instance.transfer_ns();
  for (const Arrival& seen : instance.seen) {
    stay_ns = std::min(stay_ns, seen.end_ns - seen.arrival_ns);
  }
  return std::max(stay_ns, error_ns ? instance.transfer_ns() - *error_ns : 0);
}

void keep(SearchState& search, Stall stall, const std::vector<Interval>& waits) {
  if (stall.ended_job() || stall.wrong_data() > 0) {  // reported even if it cost no time
    stall.window.to_ns = std::max(stall.window.to_ns, stall.window.from_ns + kNsPerUs);
    stall.lost_ns = std::clamp(stall.lost_ns, kNsPerUs, stall.window.length());
  }
  const bool watched = search.options.watched == stall.instance();
  const TimeRange& range = search.options.range;
  if (range.from_ns > stall.window.to_ns || range.to_ns <= stall.window.from_ns) {
    if (watched) {
      stall.verdict.reason = VerdictReason::kOutsideRange;
      decline_watched(search, std::move(stall));
    }
    return;
  }
  if (watched && search.result.watched) {
    std::erase_if(search.result.watched->declined, [&](const Stall& other) { return other.part() == stall.part(); });
  }
  if (stall.part() != StallPart::kTransfer) {
    const auto add = [&](std::vector<Interval>& waited) {
      if (waits.empty()) {
        waited.push_back(stall.window);
      } else {
        waited.insert(waited.end(), waits.begin(), waits.end());
      }
    };
    if (stall.members.size() == search.timeline.groups()[stall.group].sequences.size()) {
      add(search.group_waited[stall.group]);
    } else {
      std::ranges::for_each(stall.members, [&](MemberIndex member) { add(search.waited[member]); });
    }
  }
  search.members_held += static_cast<int64_t>(stall.members.size() + stall.suspects.size());
  search.result.stalls.push_back(std::move(stall));
  if (static_cast<int64_t>(search.result.stalls.size()) >= 2 * kMaxStalls ||
      search.members_held >= 2 * kMaxStallMembers) {
    bound_stalls(search);
  }
}

IntervalSet waited_in(const SearchState& search, const Stall& stall, Interval window) {
  std::vector<Interval> waited;
  std::vector<uint32_t> groups;
  for (const MemberIndex member : stall.members) {
    search.waited_sets[member].clip(window, waited);
    for (const uint32_t sequence : search.timeline.sequences_of(member)) {
      groups.push_back(search.timeline.sequences()[sequence].group);
    }
  }
  std::ranges::sort(groups);
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  for (const uint32_t group : groups) {
    search.group_waited_sets[group].clip(window, waited);
  }
  return IntervalSet(std::move(waited));
}

void decline_watched(SearchState& search, Stall as_if) {
  if (!search.result.watched || as_if.window.length() == 0) {
    return;
  }
  std::vector<Stall>& declined = search.result.watched->declined;
  std::erase_if(declined, [&](const Stall& other) { return other.part() == as_if.part(); });
  declined.push_back(std::move(as_if));
}

void decline_watched(SearchState& search, const Instance& instance, const Verdict& verdict) {
  decline_watched(search, as_if_stalled(search, instance, verdict));
}

void bound_stalls(SearchState& search) {
  std::vector<Stall>& stalls = search.result.stalls;
  if (static_cast<int64_t>(stalls.size()) <= kMaxStalls && search.members_held <= kMaxStallMembers) {
    return;
  }
  std::ranges::stable_sort(stalls, [](const Stall& a, const Stall& b) {
    return std::pair(a.wrong_data(), a.lost_ns) > std::pair(b.wrong_data(), b.lost_ns);
  });
  int64_t members = 0;
  auto kept = stalls.begin();
  for (; kept != stalls.end() && kept - stalls.begin() < kMaxStalls; ++kept) {
    const auto more = static_cast<int64_t>(kept->members.size() + kept->suspects.size());
    if (members > 0 && members + more > kMaxStallMembers) {
      break;
    }
    members += more;
  }
  search.result.dropped += stalls.end() - kept;
  for (auto stall = kept; search.options.watched && stall != stalls.end(); ++stall) {
    if (*search.options.watched == stall->instance()) {
      stall->verdict.reason = VerdictReason::kLeftOut;
      decline_watched(search, std::move(*stall));
    }
  }
  stalls.erase(kept, stalls.end());
  search.members_held = members;
}

int64_t hung_to_ns(const SearchState& search, const Instance& instance) {
  return std::min(instance.hung_to_ns, search.timeline.span().to_ns);
}

namespace {

/// Since when a rank with an open call may be waiting for it. A thread that only launched the call, and then launched
/// calls on other communicators, went on until the last of these.
int64_t may_wait_since_ns(const SearchState& search, const Instance& instance) {
  int64_t since_ns = kForever;
  for (const Arrival& seen : instance.seen) {
    const CallSequence& sequence = search.timeline.sequences()[seen.sequence];
    const Call* call = seen.open ? sequence.call_at(instance.number) : nullptr;
    if (call == nullptr) {
      continue;
    }
    int64_t newest_ns = instance.last_arrival_ns;
    for (const uint32_t other : search.timeline.sequences_of(sequence.member)) {
      const CallSequence& later = search.timeline.sequences()[other];
      if (call->launched && later.group != sequence.group && later.tid == sequence.tid && sequence.tid != 0) {
        newest_ns = std::max(newest_ns, later.last_arrival_ns);
      }
    }
    since_ns = std::min(since_ns, newest_ns);
  }
  return since_ns == kForever ? instance.last_arrival_ns : since_ns;
}

}  // namespace

bool outlasts_hang_limit(const SearchState& search, const Instance& instance) {
  return instance.hung && hung_to_ns(search, instance) - may_wait_since_ns(search, instance) >= kHangNs;
}

VerdictReason short_of_hang(const SearchState& search, const Instance& instance) {
  const bool long_enough = hung_to_ns(search, instance) - instance.last_arrival_ns >= kHangNs;
  return long_enough ? VerdictReason::kStillLaunching : VerdictReason::kBelowLimit;
}

bool broke_off(const SearchState& search, const Instance& instance) {
  const std::vector<uint32_t>& sequences = search.timeline.groups()[instance.group].sequences;
  const auto member = [&](uint32_t sequence) -> const Member& {
    return search.cluster.member(search.timeline.sequences()[sequence].member);
  };
  const auto failed = [&](uint32_t sequence) {
    const Member& one = member(sequence);
    return one.ended_badly() || (one.exit_ns && !one.exit_code && !one.exit_signal);
  };
  const auto killed = [&](uint32_t sequence) { return member(sequence).exit_signal == SIGKILL; };
  return instance.hung && std::any_of(sequences.begin(), sequences.end(), failed) &&
         !std::all_of(sequences.begin(), sequences.end(), killed);
}

bool ends_jobs(HangKind kind) {
  return kind == HangKind::kDead || kind == HangKind::kMismatch || kind == HangKind::kTransfer;
}

bool ended_job(const SearchState& search, const HangRoot& root, Interval window) {
  const JobEnd* end = root.kind == HangKind::kDead ? search.ends.of(root.member) : nullptr;
  return end != nullptr && end->first() == root.member &&
         window.to_ns - std::max(end->left_ns, window.from_ns) < kFollowNs;
}

}  // namespace stalltrace::analysis
