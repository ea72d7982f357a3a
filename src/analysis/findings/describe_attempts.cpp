// SPDX-License-Identifier: Apache-2.0
#include "analysis/findings/describe_attempts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "analysis/causes/cause.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

using Members = std::vector<MemberIndex>;

bool failed(const Member& member) { return member.exit_signal || member.exit_code.value_or(0) != 0; }

/// The rank that left first by itself; if none did, the first process that ended badly. kNoMember: all that ended did
/// so in good order.
MemberIndex first_to_fail(const Cluster& cluster, const JobEnds& ends, const Members& members) {
  for (const MemberIndex index : members) {
    if (const JobEnd* end = ends.of(index)) {
      return end->first();
    }
  }
  MemberIndex first = kNoMember;
  for (const MemberIndex index : members) {
    const Member& member = cluster.member(index);
    if (member.exit_ns && failed(member) && (first == kNoMember || *member.exit_ns < *cluster.member(first).exit_ns)) {
      first = index;
    }
  }
  return first;
}

std::string end_of(const Cluster& cluster, const JobEnds& ends, const Members& members, MemberIndex first) {
  const auto ended =
      std::ranges::count_if(members, [&](MemberIndex i) { return cluster.member(i).exit_ns.has_value(); });
  const auto all = static_cast<int64_t>(members.size());
  if (first != kNoMember && ends.of(first) != nullptr) {
    return fmt::format("{} {}, before any other", cluster.describe(first), cluster.member(first).how_it_ended());
  }
  if (first != kNoMember) {
    const auto before = std::ranges::count_if(members, [&](MemberIndex i) {
      const Member& other = cluster.member(i);
      return other.exit_ns && *other.exit_ns < *cluster.member(first).exit_ns;
    });
    return fmt::format("{} {}{}", cluster.describe(first), cluster.member(first).how_it_ended(),
                       before > 0 ? fmt::format(", after {} had ended without an error", count_of(before, "rank"))
                       : all == 1 ? ""
                                  : ", the first process to end");
  }
  if (ended == all) {
    return "all its ranks ended without an error";
  }
  return ended == 0 ? "no end of its ranks was seen"
                    : fmt::format("{} of its {} ended without an error, no end of the others was seen", ended,
                                  count_of(all, "rank"));
}

}  // namespace

std::vector<JobAttempt> describe_attempts(const Cluster& cluster, const Timeline& timeline, const JobEnds& ends) {
  std::vector<Members> members(cluster.attempts());
  std::vector<Interval> times(cluster.attempts(), Interval{kForever, -kForever});
  std::vector<std::set<MemberIndex>> active(cluster.attempts());
  const auto see = [&](MemberIndex member, int64_t from_ns, int64_t to_ns) {
    const AttemptIndex attempt = cluster.attempt_of(member);
    if (attempt == kNoAttempt) {
      return;
    }
    active[attempt].insert(member);
    times[attempt] = {std::min(times[attempt].from_ns, from_ns), std::max(times[attempt].to_ns, to_ns)};
  };
  for (const CallSequence& sequence : timeline.sequences()) {
    if (!sequence.calls.empty()) {
      see(sequence.member, sequence.first_arrival_ns, sequence.last_arrival_ns);
    }
  }
  for (const CommunicatorCall& call : timeline.communicator_calls()) {
    see(call.member, call.arrival_ns, call.arrival_ns);
  }
  std::vector<JobAttempt> attempts;
  for (size_t i = 0; i < active.size(); ++i) {
    if (active[i].empty()) {
      continue;  // only its communicators are known
    }
    const Members ranks(active[i].begin(), active[i].end());
    JobAttempt attempt{.number = static_cast<int64_t>(i) + 1, .ranks = static_cast<int64_t>(ranks.size())};
    std::set<NodeId> nodes;
    for (const MemberIndex index : ranks) {
      const Member& member = cluster.member(index);
      nodes.insert(member.node_id);
      times[i].from_ns = std::min(times[i].from_ns, member.start_ns.value_or(times[i].from_ns));
      const bool lives = !member.exit_ns && member.start_ns;
      times[i].to_ns =
          std::max(times[i].to_ns, lives ? timeline.span().to_ns : member.exit_ns.value_or(times[i].to_ns));
      attempt.processes.emplace_back(member.node_id, member.pid);
    }
    attempt.nodes = static_cast<int64_t>(nodes.size());
    attempt.range = {times[i].from_ns, times[i].to_ns};
    const MemberIndex first = first_to_fail(cluster, ends, ranks);
    attempt.end = end_of(cluster, ends, ranks, first);
    if (first != kNoMember) {
      attempt.ended_by = culprit_of(cluster, first);
    }
    attempts.push_back(std::move(attempt));
  }
  return attempts;
}

}  // namespace stalltrace::analysis
