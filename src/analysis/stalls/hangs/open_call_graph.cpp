// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/hangs/open_call_graph.h"

#include <algorithm>
#include <map>
#include <set>

namespace stalltrace::analysis {
namespace {

constexpr int64_t kColumnsLookedBack = 4096;  // for a mismatch: more calls are never in flight at once

constexpr size_t kCallsInACircle = 8;  // longer circles of calls in different orders are not searched for

/// The oldest of the open calls that a sequence ends with.
std::optional<int64_t> oldest_open(const CallSequence& sequence) {
  std::optional<int64_t> oldest;
  for (auto call = sequence.calls.rbegin(); call != sequence.calls.rend(); ++call) {
    if (!call->present || call->end_ns() != kForever) {
      break;
    }
    if (!call->is_open()) {
      continue;
    }
    oldest = sequence.end_column() - 1 - (call - sequence.calls.rbegin());
  }
  return sequence.destroyed || sequence.ends_unseen() || sequence.continued ? std::nullopt : oldest;
}

}  // namespace

bool OpenCallGraph::died(MemberIndex member, Interval window) const {
  if (const JobEnd* end = ends_.of(member); end != nullptr && end->first() == member) {
    return true;  // however soon the others followed
  }
  const std::optional<int64_t>& exit_ns = cluster_.member(member).exit_ns;
  const auto alone_ns = static_cast<double>(exit_ns ? window.to_ns - std::max(*exit_ns, window.from_ns) : 0);
  return exit_ns && alone_ns >= kCoverage * static_cast<double>(window.length());
}

/// First death wins: processes of a job follow each other within the time that their watchdogs take.
MemberIndex OpenCallGraph::first_death(MemberIndex member) const {
  if (const JobEnd* end = ends_.of(member)) {
    return end->first();
  }
  MemberIndex first = member;
  const Member& asked = cluster_.member(member);
  for (size_t i = 0; i < cluster_.members().size(); ++i) {
    const Member& other = cluster_.members()[i];
    const bool failed = other.exit_signal || other.exit_code.value_or(0) != 0;
    if (other.exit_ns && failed && other.job_id == asked.job_id && *asked.exit_ns - *other.exit_ns < kDeathsApartNs &&
        *other.exit_ns < *cluster_.member(first).exit_ns) {
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

/// The call that a member which did not enter (`group`, `column`) is inside: on another communicator or pair, or an
/// earlier one of the same.
std::optional<HangStep> OpenCallGraph::open_call(MemberIndex member, uint32_t group, int64_t column) const {
  std::optional<HangStep> oldest;
  int64_t oldest_ns = kForever;
  for (uint32_t index = 0; index < timeline_.sequences().size(); ++index) {
    const CallSequence& sequence = timeline_.sequences()[index];
    const std::optional<int64_t> open = sequence.member == member ? oldest_open(sequence) : std::nullopt;
    if (!open || (sequence.group == group && *open >= column)) {
      continue;
    }
    const Call& call = *sequence.at_column(*open);
    if (call.arrival_ns < oldest_ns) {
      oldest_ns = call.arrival_ns;
      oldest = HangStep{member, index, *open};
    }
  }
  return oldest;
}

std::vector<uint32_t> OpenCallGraph::lacking(uint32_t group, int64_t column) const {
  std::vector<uint32_t> sequences;
  for (const uint32_t index : timeline_.groups()[group].sequences) {
    const CallSequence& sequence = timeline_.sequences()[index];
    if (sequence.at_column(column) == nullptr && column >= sequence.end_column() && !sequence.continued) {
      sequences.push_back(index);
    }
  }
  return sequences;
}

/// The member of a cycle that is in its call with the fewest others; none when there are two.
MemberIndex OpenCallGraph::odd_one_of(const std::vector<HangStep>& cycle) const {
  MemberIndex odd = kNoMember;
  size_t fewest = ~size_t{0};
  for (const HangStep& step : cycle) {
    size_t inside = 0;
    for (const uint32_t index : timeline_.groups()[timeline_.sequences()[step.sequence].group].sequences) {
      inside += timeline_.sequences()[index].at_column(step.column) != nullptr ? 1 : 0;
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

void OpenCallGraph::follow(uint32_t sequence, uint32_t group, int64_t column, Walk& walk) const {
  const MemberIndex member = timeline_.sequences()[sequence].member;
  if (died(member, walk.window)) {
    walk.offer(HangKind::kDead, first_death(member));
    return;
  }
  const std::optional<HangStep> open = open_call(member, group, column);
  if (!open) {
    walk.offer(HangKind::kOutside, member);
    return;
  }
  const auto same = [&](const HangStep& step) { return step.member == member; };
  if (const auto again = std::find_if(walk.path.begin(), walk.path.end(), same); again != walk.path.end()) {
    walk.offer(HangKind::kCycle, odd_one_of({again, walk.path.end()}));
    return;
  }
  examine(*open, walk);
}

/// What the rank inside this call waits for.
void OpenCallGraph::examine(const HangStep& open, Walk& walk) const {
  if (!walk.visited.insert({open.sequence, open.column}).second) {
    return;
  }
  walk.path.push_back(open);
  const uint32_t inside = timeline_.sequences()[open.sequence].group;
  const std::vector<uint32_t> blockers = lacking(inside, open.column);
  for (const uint32_t blocker : blockers) {
    follow(blocker, inside, open.column, walk);
  }
  if (blockers.empty()) {
    const MemberIndex dead = dead_in(inside, walk.window);
    const std::optional<SignatureVote> vote = dead == kNoMember ? disagreement(inside) : std::nullopt;
    if (dead != kNoMember) {
      walk.offer(HangKind::kDead, dead);
    } else if (vote) {
      walk.offer(HangKind::kMismatch, vote->odd_one());
    } else {
      walk.offer(HangKind::kTransfer, kNoMember);
    }
  }
  walk.path.pop_back();
}

HangRoot OpenCallGraph::root_of(uint32_t sequence, uint32_t group, int64_t column, Interval window) const {
  Walk walk{.window = window};
  follow(sequence, group, column, walk);
  return std::move(walk.best);
}

HangRoot OpenCallGraph::behind(const Instance& instance, Interval window) const {
  Walk walk{.window = window};
  for (const Arrival& seen : instance.seen) {
    const MemberIndex member = timeline_.sequences()[seen.sequence].member;
    const std::optional<HangStep> open = open_call(member, instance.group, instance.column);
    if (!open || timeline_.sequences()[open->sequence].group == instance.group ||
        timeline_.sequences()[open->sequence].at_column(open->column)->arrival_ns >= seen.arrival_ns) {
      continue;
    }
    examine(*open, walk);
  }
  return std::move(walk.best);
}

/// Whether calls that are open longer than this instance at some of its ranks lead to `to`; then `path` leads there.
bool OpenCallGraph::leads_back(const Instance& from, const Instance& to, std::vector<HangStep>& path,
                               DepthOf& visited) const {
  for (const Arrival& seen : from.seen) {
    const MemberIndex member = timeline_.sequences()[seen.sequence].member;
    const std::optional<HangStep> open = open_call(member, from.group, from.column);
    const auto same = [&](const HangStep& step) {
      return open && step.sequence == open->sequence && step.column == open->column;
    };
    if (!open || timeline_.sequences()[open->sequence].group == from.group ||
        timeline_.sequences()[open->sequence].at_column(open->column)->arrival_ns >= seen.arrival_ns ||
        std::any_of(path.begin(), path.end(), same)) {
      continue;
    }
    Instance next;
    const uint32_t group = timeline_.sequences()[open->sequence].group;
    path.push_back(*open);
    if (group == to.group && open->column == to.column) {
      return true;
    }
    const auto [depth, fresh] = visited.try_emplace({group, open->column}, path.size());
    if ((fresh || path.size() < depth->second) && path.size() < kCallsInACircle) {
      depth->second = path.size();
      if (read_instance(timeline_, group, open->column, next) && leads_back(next, to, path, visited)) {
        return true;
      }
    }
    path.pop_back();
  }
  return false;
}

HangRoot OpenCallGraph::order_cycle(const Instance& instance) const {
  HangRoot root;
  DepthOf visited;
  if (leads_back(instance, instance, root.path, visited)) {
    root.kind = HangKind::kCycle;
    root.member = odd_one_of(root.path);
  }
  return root;
}

std::optional<SignatureVote> OpenCallGraph::vote_on(uint32_t group, int64_t column) const {
  std::map<uint16_t, std::vector<MemberIndex>> entered;
  for (const uint32_t index : timeline_.groups()[group].sequences) {
    const CallSequence& sequence = timeline_.sequences()[index];
    if (const Call* call = sequence.at_column(column); call != nullptr) {
      const auto alike = std::find_if(entered.begin(), entered.end(), [&](const auto& other) {
        return agree(timeline_.signature(other.first), timeline_.signature(call->signature));
      });
      entered[alike == entered.end() ? call->signature : alike->first].push_back(sequence.member);
    }
  }
  if (entered.size() < 2) {
    return std::nullopt;
  }
  const auto most = std::max_element(entered.begin(), entered.end(),
                                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  SignatureVote vote{.group = group, .column = column, .usual = most->first};
  bool majority = true;
  for (const auto& [signature, members] : entered) {
    if (signature != most->first) {
      vote.odd = signature;
      majority = majority && members.size() < most->second.size();
      vote.odd_ones.insert(vote.odd_ones.end(), members.begin(), members.end());
    }
  }
  if (!majority) {
    vote.odd_ones.clear();
  }
  return vote;
}

/// Whether all ranks of the group entered this instance and ended it.
bool OpenCallGraph::all_ended(const Group& group, int64_t column) const {
  return std::all_of(group.sequences.begin(), group.sequences.end(), [&](uint32_t index) {
    const Call* call = timeline_.sequences()[index].at_column(column);
    return call != nullptr && call->end_ns() != kForever;
  });
}

std::optional<SignatureVote> OpenCallGraph::disagreement(uint32_t group_index) const {
  const Group& group = timeline_.groups()[group_index];
  int64_t begin = std::numeric_limits<int64_t>::max();
  int64_t end = std::numeric_limits<int64_t>::min();
  bool open = false;
  for (const uint32_t index : group.sequences) {
    const CallSequence& sequence = timeline_.sequences()[index];
    begin = std::min(begin, sequence.first_column());
    end = std::max(end, sequence.end_column());
    open = open || oldest_open(sequence).has_value();
  }
  if (group.hash == 0 || !open) {
    return std::nullopt;
  }
  std::optional<SignatureVote> found;
  for (int64_t column = end - 1; column >= std::max(begin, end - kColumnsLookedBack); --column) {
    if (std::optional<SignatureVote> vote = vote_on(group_index, column)) {
      found = std::move(vote);
    } else if (all_ended(group, column)) {
      break;  // they agreed and ended it: nothing before it can hang them now
    }
  }
  return found;
}

}  // namespace stalltrace::analysis
