// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/hangs/open_call_graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "analysis/stalls/hangs/launch_habits.h"
#include "analysis/stalls/hangs/launch_order.h"
#include "analysis/stalls/hangs/open_calls.h"
#include "analysis/stalls/hangs/signature_votes.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/hangs.h"
#include "analysis/thresholds/stalls.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kMostNewestCalls = 16;  // ranks of one group that hang have few different newest calls

}  // namespace

OpenCallGraph::OpenCallGraph(const Timeline& timeline, const Cluster& cluster, const JobEnds& ends)
    : timeline_(timeline), cluster_(cluster), ends_(ends), open_calls_(cluster.members().size()) {
  // A rank that is inside of a call which does not return, and of whose calls no end is seen, waits there for its
  // device. Which of the calls before is the one that the device does not end is not known.
  std::set<MemberIndex> held_in_call;
  for (const CallSequence& sequence : timeline.sequences()) {
    if (sequence.held_in_newest) {
      held_in_call.insert(sequence.member);
    }
  }
  for (uint32_t index = 0; index < timeline.sequences().size(); ++index) {
    const CallSequence& sequence = timeline.sequences()[index];
    const std::optional<int64_t> open = oldest_open(sequence);
    if (open && (!held_in_call.contains(sequence.member) || !sequence.call_at(*open)->launched)) {
      open_calls_[sequence.member].push_back({sequence.member, index, *open});
    }
  }
}

bool OpenCallGraph::died(MemberIndex member, Interval window) const {
  if (const JobEnd* end = ends_.of(member); end != nullptr && end->first() == member) {
    return true;  // at any delay of the others
  }
  const std::optional<int64_t>& exit_ns = cluster_.member(member).exit_ns;
  const auto alone_ns = static_cast<double>(exit_ns ? window.to_ns - std::max(*exit_ns, window.from_ns) : 0);
  return exit_ns && alone_ns >= kCoverage * static_cast<double>(window.length());
}

/// The first death counts: processes of a job follow each other within the time that their watchdogs take.
MemberIndex OpenCallGraph::first_death(MemberIndex member) const {
  if (const JobEnd* end = ends_.of(member)) {
    return end->first();
  }
  MemberIndex first = member;
  const Member& asked = cluster_.member(member);
  for (size_t i = 0; i < cluster_.members().size(); ++i) {
    const Member& other = cluster_.members()[i];
    const bool failed = other.exit_signal || other.exit_code.value_or(0) != 0;
    if (other.exit_ns && failed && other.attempt == asked.attempt && other.job_id == asked.job_id &&
        *asked.exit_ns - *other.exit_ns < kDeathsApartNs && *other.exit_ns < *cluster_.member(first).exit_ns) {
      first = static_cast<MemberIndex>(i);
    }
  }
  return first;
}

MemberIndex OpenCallGraph::dead_in(uint32_t group, Interval window) const {
  MemberIndex first = kNoMember;
  for (const uint32_t index : timeline_.groups()[group].sequences) {
    const MemberIndex member = timeline_.sequences()[index].member;
    if (died(member, window) &&
        (first == kNoMember || *cluster_.member(member).exit_ns < *cluster_.member(first).exit_ns)) {
      first = member;
    }
  }
  return first == kNoMember ? first : first_death(first);
}

/// For a member that did not enter (`group`, `number`): the call that it is inside of, on another communicator or pair,
/// or an earlier one on the same.
std::optional<HangStep> OpenCallGraph::open_call(MemberIndex member, uint32_t group, int64_t number) const {
  std::optional<HangStep> oldest;
  int64_t oldest_ns = kForever;
  for (const HangStep& open : open_calls_[member]) {
    const CallSequence& sequence = timeline_.sequences()[open.sequence];
    if (sequence.group == group && open.number >= number) {
      continue;
    }
    const Call& call = *sequence.call_at(open.number);
    if (call.arrival_ns < oldest_ns) {
      oldest_ns = call.arrival_ns;
      oldest = open;
    }
  }
  return oldest;
}

/// The calls on other communicators that members of `instance` have been inside of for longer than in it.
std::vector<HangStep> OpenCallGraph::older_calls(const Instance& instance) const {
  std::vector<HangStep> older;
  for (const Arrival& seen : instance.seen) {
    const MemberIndex member = timeline_.sequences()[seen.sequence].member;
    const std::optional<HangStep> open = open_call(member, instance.group, instance.number);
    if (!open) {
      continue;
    }
    const CallSequence& sequence = timeline_.sequences()[open->sequence];
    if (sequence.group != instance.group && sequence.call_at(open->number)->arrival_ns < seen.arrival_ns) {
      older.push_back(*open);
    }
  }
  return older;
}

std::vector<uint32_t> OpenCallGraph::lacking(uint32_t group, int64_t number) const {
  std::vector<uint32_t> sequences;
  for (const uint32_t index : timeline_.groups()[group].sequences) {
    const CallSequence& sequence = timeline_.sequences()[index];
    if (sequence.call_at(number) == nullptr && number >= sequence.next_number() && !sequence.continued) {
      sequences.push_back(index);
    }
  }
  return sequences;
}

/// The member of a cycle whose call has the fewest other ranks inside; none if two have equally few. Where all ranks
/// have made all calls, their order shows it.
MemberIndex OpenCallGraph::odd_one_of(const std::vector<HangStep>& cycle) const {
  const bool made = std::ranges::all_of(cycle, [&](const HangStep& step) {
    return lacking(timeline_.sequences()[step.sequence].group, step.number).empty();
  });
  if (made) {
    return odd_one_by_order(cycle);
  }
  MemberIndex odd = kNoMember;
  size_t fewest = ~size_t{0};
  for (const HangStep& step : cycle) {
    size_t inside = 0;
    for (const uint32_t index : timeline_.groups()[timeline_.sequences()[step.sequence].group].sequences) {
      inside += timeline_.sequences()[index].call_at(step.number) != nullptr ? 1 : 0;
    }
    odd = inside < fewest ? step.member : inside == fewest ? kNoMember : odd;
    fewest = std::min(fewest, inside);
  }
  return odd;
}

void OpenCallGraph::Walk::offer(HangKind kind, MemberIndex who) {
  if (kind > best.kind) {
    best = {kind, who, path};
  }
}

/// Examines only the first of many cycles, because that takes ranks times ranks.
void OpenCallGraph::offer_cycle(Path::const_iterator from, Path::const_iterator to, Walk& walk) const {
  if (HangKind::kCycle > walk.best.kind) {
    walk.offer(HangKind::kCycle, odd_one_of({from, to}));
  }
}

void OpenCallGraph::follow(uint32_t sequence, uint32_t group, int64_t number, Walk& walk) const {
  const MemberIndex member = timeline_.sequences()[sequence].member;
  if (died(member, walk.window)) {
    walk.offer(HangKind::kDead, first_death(member));
    return;
  }
  const std::optional<HangStep> open = open_call(member, group, number);
  if (!open) {
    walk.offer(HangKind::kOutside, member);
    return;
  }
  const auto same = [&](const HangStep& step) { return step.member == member; };
  if (const auto again = std::find_if(walk.path.begin(), walk.path.end(), same); again != walk.path.end()) {
    offer_cycle(again, walk.path.end(), walk);
    return;
  }
  examine(*open, walk);
}

/// Follows what the rank inside this call waits for.
void OpenCallGraph::examine(const HangStep& open, Walk& walk) const {
  if (!walk.visited.insert({open.sequence, open.number}).second) {
    return;
  }
  walk.path.push_back(open);
  const uint32_t inside = timeline_.sequences()[open.sequence].group;
  const std::vector<uint32_t> blockers = lacking(inside, open.number);
  for (const uint32_t blocker : blockers) {
    follow(blocker, inside, open.number, walk);
  }
  if (blockers.empty() && !walk.complete.insert({inside, open.number}).second) {
    // The next wait is known. If the path has been here before, the rank waits for itself.
    const auto end = walk.path.end() - 1;
    const auto again = std::find_if(walk.path.begin(), end, [&](const HangStep& step) {
      return step.number == open.number && timeline_.sequences()[step.sequence].group == inside;
    });
    if (again != end) {
      offer_cycle(again, end, walk);
    }
  } else if (blockers.empty()) {
    const MemberIndex dead = dead_in(inside, walk.window);
    const std::optional<SignatureVote> vote = dead == kNoMember ? disagreement(timeline_, inside) : std::nullopt;
    if (dead != kNoMember) {
      walk.offer(HangKind::kDead, dead);
    } else if (vote) {
      walk.offer(HangKind::kMismatch, vote->odd_one());
    } else if (!examine_older(open, walk)) {
      walk.offer(HangKind::kTransfer, kNoMember);
    }
  }
  walk.path.pop_back();
}

/// For a call that all ranks have entered: calls of one rank end in order, so it waits for calls that some of them have
/// been inside of for longer. False if there is no such call.
bool OpenCallGraph::examine_older(const HangStep& open, Walk& walk) const {
  Instance instance;
  if (!read_instance(timeline_, timeline_.sequences()[open.sequence].group, open.number, instance)) {
    return false;
  }
  const std::vector<HangStep> older = older_calls(instance);
  for (const HangStep& call : older) {
    const auto same = [&](const HangStep& step) {
      return step.sequence == call.sequence && step.number == call.number;
    };
    if (const auto again = std::ranges::find_if(walk.path, same); again != walk.path.end()) {
      offer_cycle(again, walk.path.end(), walk);
    } else {
      examine(call, walk);
    }
  }
  return !older.empty();
}

OpenCallGraph::Absence OpenCallGraph::absence_of(const Instance& instance, Interval window) const {
  Absence absence;
  Walk walk{.window = window};
  for (const uint32_t sequence : instance.absent) {
    const MemberIndex member = timeline_.sequences()[sequence].member;
    if (!died(member, window) && !open_call(member, instance.group, instance.number)) {
      absence.outside.push_back(member);
    }
    follow(sequence, instance.group, instance.number, walk);
  }
  absence.root = std::move(walk.best);
  if (absence.root.kind == HangKind::kTransfer) {  // their calls have no ends: they may wait for a rank that stopped
    HangRoot stopped = stopped_in_step(instance.group, window);
    const auto is_absent = [&](uint32_t sequence) { return timeline_.sequences()[sequence].member == stopped.member; };
    if (stopped.kind == HangKind::kOutside) {
      if (std::ranges::any_of(instance.absent, is_absent)) {
        absence.outside = {stopped.member};
      } else {
        stopped.path = std::move(absence.root.path);
      }
      absence.root = std::move(stopped);
    }
  }
  return absence;
}

/// True if all calls of the rank without an end were launched by all ranks that they need, and these are known.
bool OpenCallGraph::waits_for_no_rank(MemberIndex member) const {
  return std::ranges::all_of(open_calls_[member], [&](const HangStep& open) {
    const CallSequence& sequence = timeline_.sequences()[open.sequence];
    return timeline_.groups()[sequence.group].all_took_part &&
           lacking(sequence.group, sequence.end_number() - 1).empty();
  });
}

/// True if most ranks inside the instance have come to where they usually synchronise. If not, their CPUs may wait for
/// room in their devices' queues, each one at a point of its own.
bool OpenCallGraph::came_to_synchronisation(const Instance& instance) const {
  size_t came = 0;
  for (const Arrival& seen : instance.seen) {
    const std::optional<LaunchHabit> habit = launch_habit(timeline_, timeline_.sequences()[seen.sequence].member);
    came += habit && habit->may_synchronise() ? 1 : 0;
  }
  return 2 * came > instance.seen.size();
}

HangRoot OpenCallGraph::find_stopped(AttemptIndex attempt) const {
  HangRoot found;
  std::set<MemberIndex> judged;
  Instance instance;
  for (uint32_t index = 0; index < timeline_.groups().size(); ++index) {
    const Group& group = timeline_.groups()[index];
    if (group.attempt != attempt) {
      continue;
    }
    std::map<int64_t, std::vector<uint32_t>> by_next;  // by the number of the call that a sequence lacks
    for (const uint32_t sequence : group.sequences) {
      by_next[timeline_.sequences()[sequence].next_number()].push_back(sequence);
    }
    if (by_next.size() > kMostNewestCalls) {
      return {};
    }
    for (const auto& [number, sequences] : by_next) {
      if (number == by_next.rbegin()->first || !read_instance(timeline_, index, number, instance) || !instance.hung ||
          std::min(instance.hung_to_ns, timeline_.span().to_ns) - instance.last_arrival_ns < kHangNs) {
        continue;
      }
      for (const uint32_t sequence : sequences) {
        const MemberIndex member = timeline_.sequences()[sequence].member;
        if (std::ranges::find(instance.absent, sequence) == instance.absent.end() || member == found.member) {
          continue;
        }
        if (open_calls_[member].empty()) {
          return {};  // it is in no call: that explains the hang
        }
        if (!judged.insert(member).second || !group.all_took_part || !waits_for_no_rank(member)) {
          continue;
        }
        const std::optional<LaunchHabit> habit = launch_habit(timeline_, member);
        if (!habit || habit->may_synchronise()) {
          continue;
        }
        if (found.kind != HangKind::kNone || !came_to_synchronisation(instance)) {
          return {};
        }
        found = {.kind = HangKind::kOutside, .member = member, .path = {}};
      }
    }
  }
  return found;
}

HangRoot OpenCallGraph::stopped_in_step(uint32_t group, Interval window) const {
  const AttemptIndex attempt = timeline_.groups()[group].attempt;
  if (window.length() < kHangNs) {
    return {};
  }
  const auto [found, fresh] = stopped_.try_emplace(attempt);
  if (fresh) {
    found->second = find_stopped(attempt);
  }
  const HangRoot& root = found->second;
  for (size_t i = 0; root.kind == HangKind::kOutside && i < cluster_.members().size(); ++i) {
    if (cluster_.members()[i].attempt == attempt && died(static_cast<MemberIndex>(i), window)) {
      return {};
    }
  }
  return root;
}

HangRoot OpenCallGraph::behind(const Instance& instance, Interval window) const {
  Walk walk{.window = window};
  for (const HangStep& call : older_calls(instance)) {
    examine(call, walk);
  }
  return std::move(walk.best);
}

/// True if calls that some ranks entered before this instance, and are still inside of, lead to `to`; `path` then leads
/// there.
bool OpenCallGraph::leads_back(const Instance& from, const Instance& to, std::vector<HangStep>& path,
                               Visited& visited) const {
  for (const HangStep& call : older_calls(from)) {
    const uint32_t group = timeline_.sequences()[call.sequence].group;
    path.push_back(call);
    if (group == to.group && call.number == to.number) {
      return true;
    }
    Instance next;
    if (visited.insert({group, call.number}).second && read_instance(timeline_, group, call.number, next) &&
        leads_back(next, to, path, visited)) {
      return true;
    }
    path.pop_back();
  }
  return false;
}

/// The sequences of the members that have made the call.
std::map<MemberIndex, uint32_t> OpenCallGraph::sequences_with(uint32_t group, int64_t number) const {
  std::map<MemberIndex, uint32_t> sequences;
  for (const uint32_t index : timeline_.groups()[group].sequences) {
    if (timeline_.sequences()[index].call_at(number) != nullptr) {
      sequences.emplace(timeline_.sequences()[index].member, index);
    }
  }
  return sequences;
}

/// All ranks have made the calls of the cycle: the only one that made two of them in another order than before, or else
/// than all others that made both, if these are at least two. None if that is not one rank.
MemberIndex OpenCallGraph::odd_one_by_order(const std::vector<HangStep>& cycle) const {
  std::set<MemberIndex> changed;
  std::set<MemberIndex> different;
  const HangStep* before = &cycle.back();
  const auto with = [&](const HangStep& step) {
    return sequences_with(timeline_.sequences()[step.sequence].group, step.number);
  };
  std::map<MemberIndex, uint32_t> earlier_sequences = with(*before);
  for (const HangStep& step : cycle) {
    std::map<MemberIndex, uint32_t> sequences = with(step);
    std::vector<MemberIndex> earlier;
    std::vector<MemberIndex> later;
    for (const auto& [member, index] : sequences) {
      const auto found = earlier_sequences.find(member);
      if (found == earlier_sequences.end()) {
        continue;
      }
      const CallSequence& own = timeline_.sequences()[index];
      const CallSequence& other = timeline_.sequences()[found->second];
      const bool first = own.call_at(step.number)->arrival_ns < other.call_at(before->number)->arrival_ns;
      (first ? earlier : later).push_back(member);
      const bool rarer = own.calls.size() <= other.calls.size();
      if (rarer ? changes_order(own, step.number, other) : changes_order(other, before->number, own)) {
        changed.insert(member);
      }
    }
    const std::vector<MemberIndex>& few = earlier.size() < later.size() ? earlier : later;
    if (few.size() == 1 && earlier.size() + later.size() > 2) {
      different.insert(few.front());
    }
    before = &step;
    earlier_sequences = std::move(sequences);
  }
  const std::set<MemberIndex>& odd = changed.size() == 1 ? changed : different;
  return odd.size() == 1 ? *odd.begin() : kNoMember;
}

HangRoot OpenCallGraph::order_cycle(const Instance& instance) const {
  HangRoot root;
  Visited visited;
  if (leads_back(instance, instance, root.path, visited)) {
    root.kind = HangKind::kCycle;
    root.member = odd_one_of(root.path);
    return root;
  }
  const bool held = std::ranges::any_of(
      instance.seen, [&](const Arrival& seen) { return timeline_.sequences()[seen.sequence].held_in_newest; });
  if (held) {
    return different_launch_order(timeline_, instance);
  }
  if (!instance.hung || !instance.absent.empty()) {
    return root;
  }
  const AttemptIndex attempt = timeline_.groups()[instance.group].attempt;
  const auto [found, fresh] = changed_.try_emplace(attempt);
  if (fresh) {
    found->second = find_changed_order(attempt);
  }
  return found->second;
}

/// Of calls that have not ended, because what ends all calls of a step has not come: the only rank that made calls on
/// two communicators in another order than before, where the others made theirs as before. At the beginning of a step
/// all of a communicator's ranks do.
HangRoot OpenCallGraph::find_changed_order(AttemptIndex attempt) const {
  constexpr int64_t kMostCalls = 16;
  std::map<std::pair<uint32_t, int64_t>, std::map<MemberIndex, std::vector<HangStep>>> changed;  // by group and number
  for (MemberIndex member = 0; member < open_calls_.size(); ++member) {
    for (const HangStep& rare : open_calls_[member]) {
      const CallSequence& own = timeline_.sequences()[rare.sequence];
      for (const HangStep& frequent : open_calls_[member]) {
        const CallSequence& other = timeline_.sequences()[frequent.sequence];
        if (own.point_to_point || other.point_to_point || other.group == own.group ||
            own.calls.size() > other.calls.size() || timeline_.groups()[own.group].attempt != attempt) {
          continue;
        }
        int64_t number = std::max(rare.number, own.end_number() - kMostCalls);
        for (; number < own.end_number(); ++number) {
          if (changes_order(own, number, other)) {
            changed[{own.group, number}][member] = {{member, rare.sequence, number},
                                                    {member, frequent.sequence, other.end_number() - 1}};
          }
        }
      }
    }
  }
  HangRoot root;
  for (const auto& [call, members] : changed) {
    const auto& [member, path] = *members.begin();
    if (members.size() > 1 || sequences_with(call.first, call.second).size() < 2) {
      continue;
    }
    if (root.member != kNoMember && root.member != member) {
      return {};
    }
    root = {.kind = HangKind::kCycle, .member = member, .path = path, .concluded = true};
  }
  return root;
}

}  // namespace stalltrace::analysis
