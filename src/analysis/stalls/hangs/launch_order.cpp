// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/hangs/launch_order.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace stalltrace::analysis {
namespace {

struct Launch {
  int64_t arrival_ns = 0;
  uint32_t group = 0;
  HangStep step;

  [[nodiscard]] std::pair<uint32_t, int64_t> call() const { return {group, step.number}; }
};

/// The groups whose ends the member does not see and in which its thread `tid` calls.
std::set<uint32_t> groups_without_ends(const Timeline& timeline, MemberIndex member, int32_t tid) {
  std::set<uint32_t> groups;
  for (const uint32_t index : timeline.sequences_of(member)) {
    const CallSequence& sequence = timeline.sequences()[index];
    if (sequence.ends_unseen() && !sequence.point_to_point && !sequence.continued && sequence.tid == tid) {
      groups.insert(sequence.group);
    }
  }
  return groups;
}

std::vector<Launch> launches_of(const Timeline& timeline, MemberIndex member, const std::set<uint32_t>& groups) {
  std::vector<Launch> launches;
  for (const uint32_t index : timeline.sequences_of(member)) {
    const CallSequence& sequence = timeline.sequences()[index];
    if (!groups.contains(sequence.group)) {
      continue;
    }
    for (size_t i = 0; i < sequence.calls.size(); ++i) {
      if (sequence.calls[i].present) {
        const int64_t number = sequence.first_number() + static_cast<int64_t>(i);
        launches.push_back({sequence.calls[i].arrival_ns, sequence.group, {member, index, number}});
      }
    }
  }
  std::ranges::stable_sort(launches, {}, &Launch::arrival_ns);
  return launches;
}

struct Difference {
  Launch here;   // this rank's earlier call
  Launch there;  // the other rank's
};

/// The first calls of both lists that differ, if each list has both: a call that one list lacks may be lost.
std::optional<Difference> first_difference(const std::vector<Launch>& here, const std::vector<Launch>& there) {
  const auto [a, b] = std::ranges::mismatch(here, there, {}, &Launch::call, &Launch::call);
  if (a == here.end() || b == there.end()) {
    return std::nullopt;
  }
  const bool both = std::ranges::find(a, here.end(), b->call(), &Launch::call) != here.end() &&
                    std::ranges::find(b, there.end(), a->call(), &Launch::call) != there.end();
  return both && a->group != b->group ? std::optional(Difference{*a, *b}) : std::nullopt;
}

}  // namespace

HangRoot different_launch_order(const Timeline& timeline, const Instance& instance) {
  std::vector<MemberIndex> members;
  std::optional<std::set<uint32_t>> common;
  for (const Arrival& seen : instance.seen) {
    const CallSequence& sequence = timeline.sequences()[seen.sequence];
    std::set<uint32_t> groups = groups_without_ends(timeline, sequence.member, sequence.tid);
    members.push_back(sequence.member);
    if (common) {
      std::erase_if(*common, [&](uint32_t group) { return !groups.contains(group); });
    } else {
      common = std::move(groups);
    }
  }
  if (members.size() < 2 || !common || common->size() < 2 || !common->contains(instance.group)) {
    return {};
  }
  const std::vector<Launch> reference = launches_of(timeline, members.front(), *common);
  std::optional<Difference> first;
  std::vector<MemberIndex> different;
  for (const MemberIndex member : members) {
    const std::optional<Difference> found = first_difference(launches_of(timeline, member, *common), reference);
    if (!found) {
      continue;
    }
    different.push_back(member);
    if (!first || found->there.arrival_ns < first->there.arrival_ns) {
      first = found;
    }
  }
  if (!first) {
    return {};
  }
  HangRoot root{.kind = HangKind::kCycle, .member = kNoMember, .path = {first->here.step, first->there.step}};
  if (members.size() > 2 && different.size() == 1) {
    root.member = different.front();
  } else if (members.size() > 2 && different.size() == members.size() - 1) {
    root.member = members.front();
  }
  return root;
}

}  // namespace stalltrace::analysis
