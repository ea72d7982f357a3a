// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/hangs/launch_order.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "analysis/thresholds/order.h"

namespace stalltrace::analysis {
namespace {

struct Launch {
  int64_t arrival_ns = 0;
  uint32_t group = 0;
  HangStep step;

  [[nodiscard]] std::pair<uint32_t, int64_t> call() const { return {group, step.number}; }
};

/// The groups whose ends the member does not see and in which its thread `tid` calls. None if it has several
/// communicators in one of them, one per device: whose call came first says nothing then.
std::optional<std::set<uint32_t>> groups_without_ends(const Timeline& timeline, MemberIndex member, int32_t tid) {
  std::set<uint32_t> groups;
  for (const uint32_t index : timeline.sequences_of(member)) {
    const CallSequence& sequence = timeline.sequences()[index];
    if (!sequence.ends_unseen() || sequence.point_to_point || sequence.continued || sequence.tid != tid) {
      continue;
    }
    if (!groups.insert(sequence.group).second) {
      return std::nullopt;
    }
  }
  return groups;
}

/// Of one thread of a member.
std::vector<Launch> launches_of(const Timeline& timeline, const CallSequence& of, const std::set<uint32_t>& groups) {
  std::vector<Launch> launches;
  for (const uint32_t index : timeline.sequences_of(of.member)) {
    const CallSequence& sequence = timeline.sequences()[index];
    if (!groups.contains(sequence.group) || sequence.tid != of.tid || sequence.continued) {
      continue;
    }
    for (size_t i = 0; i < sequence.calls.size(); ++i) {
      if (sequence.calls[i].present) {
        const int64_t number = sequence.first_number() + static_cast<int64_t>(i);
        launches.push_back({sequence.calls[i].arrival_ns, sequence.group, {of.member, index, number}});
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

/// The first calls of both lists that differ, among the last ones that a CPU can be ahead by, if each list has both: a
/// call that one list lacks may be lost.
std::optional<Difference> first_difference(const std::vector<Launch>& here, const std::vector<Launch>& there) {
  const size_t size = std::min(here.size(), there.size());
  const size_t ahead = std::min(size, static_cast<size_t>(kMostCallsAhead));
  const auto from = static_cast<std::ptrdiff_t>(size - ahead);
  const auto [a, b] = std::mismatch(here.begin() + from, here.end(), there.begin() + from, there.end(),
                                    [](const Launch& one, const Launch& other) { return one.call() == other.call(); });
  if (a == here.end() || b == there.end()) {
    return std::nullopt;
  }
  const bool both = std::ranges::find(a, here.end(), b->call(), &Launch::call) != here.end() &&
                    std::ranges::find(b, there.end(), a->call(), &Launch::call) != there.end();
  return both && a->group != b->group ? std::optional(Difference{*a, *b}) : std::nullopt;
}

/// Number of calls that began before.
int64_t calls_before(const CallSequence& sequence, int64_t time_ns) {
  auto last = sequence.calls.end();
  while (last != sequence.calls.begin() && (!(last - 1)->present || (last - 1)->arrival_ns >= time_ns)) {
    --last;
  }
  return last - sequence.calls.begin();
}

}  // namespace

bool changes_order(const CallSequence& sequence, int64_t number, const CallSequence& other) {
  constexpr size_t kCalls = 4;
  std::array<int64_t, kCalls> counts{};
  for (size_t i = 0; i < kCalls; ++i) {
    const Call* call = sequence.call_at(number - static_cast<int64_t>(i));
    if (call == nullptr) {
      return false;
    }
    counts[i] = calls_before(other, call->arrival_ns);
  }
  const int64_t usual = counts[1] - counts[2];
  return usual == counts[2] - counts[3] && counts[0] - counts[1] != usual;
}

HangRoot different_launch_order(const Timeline& timeline, const Instance& instance) {
  std::optional<std::set<uint32_t>> common;
  for (const Arrival& seen : instance.seen) {
    const CallSequence& sequence = timeline.sequences()[seen.sequence];
    std::optional<std::set<uint32_t>> groups = groups_without_ends(timeline, sequence.member, sequence.tid);
    if (!groups) {
      return {};
    }
    if (common) {
      std::erase_if(*common, [&](uint32_t group) { return !groups->contains(group); });
    } else {
      common = std::move(groups);
    }
  }
  if (instance.seen.size() < 2 || !common || common->size() < 2 || !common->contains(instance.group)) {
    return {};
  }
  const auto launches = [&](const Arrival& seen) {
    return launches_of(timeline, timeline.sequences()[seen.sequence], *common);
  };
  const std::vector<Launch> reference = launches(instance.seen.front());
  std::vector<Launch> of_different;  // of the first rank that differs from the reference
  std::optional<Difference> first;
  std::vector<MemberIndex> different;
  bool alike = true;  // all that differ from the reference have one order
  for (const Arrival& seen : instance.seen) {
    const std::vector<Launch> own = launches(seen);
    const std::optional<Difference> found = first_difference(own, reference);
    if (!found) {
      continue;
    }
    alike = alike && (different.empty() || !first_difference(own, of_different));
    of_different = different.empty() ? own : std::move(of_different);
    different.push_back(timeline.sequences()[seen.sequence].member);
    if (!first || found->there.arrival_ns < first->there.arrival_ns) {
      first = found;
    }
  }
  if (!first) {
    return {};
  }
  HangRoot root{.kind = HangKind::kCycle, .member = kNoMember, .path = {first->here.step, first->there.step}};
  const size_t ranks = instance.seen.size();
  if (ranks > 2 && different.size() == 1) {
    root.member = different.front();
  } else if (ranks > 2 && different.size() == ranks - 1 && alike) {
    root.member = timeline.sequences()[instance.seen.front().sequence].member;
  }
  return root;
}

}  // namespace stalltrace::analysis
