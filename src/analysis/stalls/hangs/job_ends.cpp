// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/hangs/job_ends.h"

#include <algorithm>
#include <csignal>
#include <limits>
#include <map>
#include <numeric>

#include "analysis/thresholds/hangs.h"
#include "analysis/thresholds/network.h"
#include "analysis/thresholds/stalls.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::min();
constexpr int32_t kShellSignalBase = 128;  // exit code offset of a program that a signal ended

bool asks_to_end(int32_t signal) { return signal == SIGTERM || signal == SIGINT || signal == SIGHUP; }

bool ended_well(const Member& member) { return !member.exit_signal && member.exit_code == 0; }

/// How one rank ended.
struct Leaving {
  int64_t first_ns = kNever;     // its first call; kNever: it made none
  int64_t exit_ns = kForever;    // of its process
  int64_t left_ns = kForever;    // when it closed a connection to another rank, or ended
  int64_t inside_ns = kNever;    // when it entered the oldest call that it never left; kNever: none
  int64_t failed_ns = kForever;  // when that call failed
  std::optional<HangStep> last;  // newest call that ended
  int64_t last_end_ns = kNever;
  bool finished = true;  // it gave up all its communicators in good order
  bool unclear = false;  // ends of its calls are never observed

  [[nodiscard]] bool inside() const { return inside_ns != kNever; }
  [[nodiscard]] bool closed_first() const { return left_ns < exit_ns; }
  /// The end of its last open call.
  [[nodiscard]] int64_t inside_to_ns() const { return std::min(failed_ns, exit_ns); }
};

class Search {
 public:
  Search(const Timeline& timeline, const Cluster& cluster, const Flows& flows)
      : timeline_(timeline), cluster_(cluster), leaving_(cluster.members().size()), job_(cluster.members().size()) {
    std::iota(job_.begin(), job_.end(), size_t{0});
    for (const Group& group : timeline.groups()) {
      for (const uint32_t index : group.sequences) {
        job_[root(member_of(index))] = root(member_of(group.sequences.front()));
      }
    }
    for (uint32_t i = 0; i < timeline.sequences().size(); ++i) {
      note_calls(i);
    }
    for (size_t i = 0; i < leaving_.size(); ++i) {
      const Member& member = cluster.members()[i];
      leaving_[i].exit_ns = leaving_[i].left_ns = member.exit_ns.value_or(kForever);
      jobs_[root(i)].push_back(static_cast<MemberIndex>(i));
    }
    for (const Flow& flow : flows.all()) {
      note_close(flows, flow);
    }
    for (uint32_t i = 0; i < timeline.sequences().size(); ++i) {
      note_waiting(i);
    }
  }

  [[nodiscard]] const std::map<size_t, std::vector<MemberIndex>>& jobs() const { return jobs_; }

  [[nodiscard]] std::optional<JobEnd> end_of(const std::vector<MemberIndex>& members) const {
    std::optional<MemberIndex> first;
    for (const MemberIndex member : members) {
      if (left_by_itself(member) && (!first || at(member).left_ns < at(*first).left_ns)) {
        first = member;
      }
    }
    if (!first || members.size() < 2) {
      return std::nullopt;
    }
    return judge(*first, contemporaries(*first, members));
  }

 private:
  [[nodiscard]] const Leaving& at(MemberIndex member) const { return leaving_[member]; }
  [[nodiscard]] MemberIndex member_of(uint32_t sequence) const { return timeline_.sequences()[sequence].member; }

  size_t root(size_t member) {
    while (job_[member] != member) {
      member = job_[member] = job_[job_[member]];
    }
    return member;
  }

  void note_calls(uint32_t index) {
    const CallSequence& sequence = timeline_.sequences()[index];
    Leaving& leaving = leaving_[sequence.member];
    if (sequence.calls.empty()) {
      leaving.finished = leaving.finished && sequence.destroyed;
      return;
    }
    leaving.first_ns =
        leaving.first_ns == kNever ? sequence.first_arrival_ns : std::min(leaving.first_ns, sequence.first_arrival_ns);
    leaving.finished = leaving.finished && sequence.destroyed;
    leaving.unclear = leaving.unclear || sequence.ends_unseen() || sequence.ends_unobserved();
    const Group& group = timeline_.groups()[sequence.group];
    int64_t number = sequence.end_number();
    for (auto call = sequence.calls.rbegin(); call != sequence.calls.rend() && call->present; ++call) {
      --number;
      if (call->end_ns() != kForever) {
        if (call->end_ns() > leaving.last_end_ns) {
          leaving.last_end_ns = call->end_ns();
          leaving.last = HangStep{sequence.member, index, number};
        }
        break;
      }
      const bool inside = call->is_open() && !sequence.destroyed && !sequence.continued &&
                          (number > group.last_ended_number || sequence.aborted);
      if (inside) {
        leaving.inside_ns = leaving.inside() ? std::min(leaving.inside_ns, call->arrival_ns) : call->arrival_ns;
        leaving.failed_ns = std::min(leaving.failed_ns, sequence.abort_ns);
      }
    }
  }

  void note_waiting(uint32_t index) {
    const CallSequence& sequence = timeline_.sequences()[index];
    const Leaving& waits = at(sequence.member);
    if (waits.inside() && !sequence.calls.empty() && sequence.calls.back().is_open() &&
        waits.inside_to_ns() != kForever && !ended_well(cluster_.member(sequence.member))) {
      waiting_[sequence.group].push_back(index);
    }
  }

  /// Times on one host are ordered; times on two hosts are known to less than this.
  [[nodiscard]] int64_t clock_error_ns(MemberIndex a, MemberIndex b) const {
    const Clock& clock = cluster_.clock();
    return clock.host(cluster_.member(a).node_id) == clock.host(cluster_.member(b).node_id) ? 0 : kDeathToResetNs;
  }

  /// The same by the errors of the clocks, which may be larger; none where ranks that end together would seem not to.
  [[nodiscard]] std::optional<int64_t> order_error_ns(MemberIndex a, MemberIndex b) const {
    const Clock& clock = cluster_.clock();
    const int64_t usual_ns = clock_error_ns(a, b);
    if (usual_ns == 0) {
      return usual_ns;
    }
    const std::optional<int64_t> one_ns = clock.error_ns(cluster_.member(a).node_id);
    const std::optional<int64_t> other_ns = clock.error_ns(cluster_.member(b).node_id);
    if (!one_ns || !other_ns || *one_ns > kTogetherNs || *other_ns > kTogetherNs - *one_ns) {
      return std::nullopt;
    }
    return std::max(usual_ns, *one_ns + *other_ns);
  }

  /// A rank that ends closes its connections, and the other ends close because of that. Earlier closes belong to a
  /// communicator that it gave up while it continued.
  void note_close(const Flows& flows, const Flow& flow) {
    if (flow.reverse == kNoFlow || flow.peer == kNoMember || flow.peer == flow.owner) {
      return;
    }
    Leaving& leaving = leaving_[flow.owner];
    const bool at_its_end = leaving.exit_ns != kForever && flow.closed_ns <= leaving.exit_ns &&
                            flow.closed_ns >= leaving.exit_ns - kTeardownNs && flow.closed_ns >= leaving.last_end_ns;
    if (at_its_end && flow.closed_ns <= flows.flow(flow.reverse).closed_ns + clock_error_ns(flow.owner, flow.peer)) {
      leaving.left_ns = std::min(leaving.left_ns, flow.closed_ns);
    }
  }

  /// A rank whose call failed is a victim, and so is one that hung in a call before it died. A rank that ends with
  /// success left by itself only if others waited for it and failed.
  [[nodiscard]] bool left_by_itself(MemberIndex index) const {
    const Leaving& leaving = at(index);
    const Member& member = cluster_.member(index);
    if (leaving.exit_ns == kForever || leaving.unclear) {
      return false;
    }
    if (leaving.inside()) {
      return crashed_inside(leaving, member);
    }
    return failed_by_itself(member) || (ended_well(member) && !leaving.finished && left_others_behind(index));
  }

  /// A process that ends with an exit code got an error from its call first, even if that was not observed.
  [[nodiscard]] static bool crashed_inside(const Leaving& leaving, const Member& member) {
    return member.exit_signal && failed_by_itself(member) && leaving.failed_ns >= leaving.exit_ns &&
           leaving.exit_ns - leaving.inside_ns < kHangNs;
  }

  /// True if a rank that failed was inside a call that this one did not enter.
  [[nodiscard]] bool left_others_behind(MemberIndex member) const {
    const auto waited = [&](const CallSequence& own, uint32_t index) {
      const CallSequence& sequence = timeline_.sequences()[index];
      const int64_t open_number = sequence.end_number() - 1;
      const Leaving& waits = at(sequence.member);
      return sequence.member != member && open_number >= own.end_number() &&
             open_number > timeline_.groups()[own.group].last_ended_number &&
             waits.inside_to_ns() >= at(member).left_ns - kDeathToResetNs && overlap(member, sequence.member);
    };
    return std::ranges::any_of(timeline_.sequences_of(member), [&](uint32_t index) {
      const CallSequence& own = timeline_.sequences()[index];
      const auto waiting = waiting_.find(own.group);
      return !own.continued && !own.destroyed && waiting != waiting_.end() &&
             std::ranges::any_of(waiting->second, [&](uint32_t other) { return waited(own, other); });
    });
  }
  /// True if both existed at one time: processes of a job that ended earlier or began later don't count.
  [[nodiscard]] bool overlap(MemberIndex a, MemberIndex b) const {
    return at(a).first_ns <= at(b).left_ns && at(b).first_ns <= at(a).left_ns;
  }

  [[nodiscard]] std::vector<MemberIndex> contemporaries(MemberIndex first,
                                                        const std::vector<MemberIndex>& members) const {
    std::vector<MemberIndex> others;
    std::ranges::copy_if(members, std::back_inserter(others),
                         [&](MemberIndex other) { return other != first && overlap(first, other); });
    return others;
  }

  /// True if something else happened before it left: it was ended with the others, or their calls had already failed.
  [[nodiscard]] bool was_not_first(MemberIndex first, MemberIndex other) const {
    const Leaving& one = at(first);
    const Leaving& leaving = at(other);
    const std::optional<int64_t> error_ns = order_error_ns(first, other);
    if (!error_ns) {
      return true;
    }
    if (leaving.exit_ns < one.left_ns - *error_ns && !(ended_well(cluster_.member(other)) && !leaving.inside())) {
      return true;
    }
    if (!leaving.inside() || leaving.failed_ns == kForever) {
      return false;
    }
    // If the closing of its connections was not observed, it left some time before its process ended.
    const int64_t left_ns = one.closed_first() ? one.left_ns : one.exit_ns - kTeardownUnseenNs;
    return leaving.failed_ns < left_ns - std::max(*error_ns, kDeathToResetNs);
  }

  [[nodiscard]] std::optional<JobEnd> judge(MemberIndex first, const std::vector<MemberIndex>& others) const {
    if (others.empty() || std::ranges::any_of(others, [&](MemberIndex other) { return was_not_first(first, other); })) {
      return std::nullopt;
    }
    const Leaving& one = at(first);
    JobEnd end{.leavers = {first}, .left_ns = one.left_ns, .closed_first = one.closed_first(), .last = one.last};
    end.last_end_ns = one.last ? one.last_end_ns : 0;
    end.ranks = others.size() + 1;
    int64_t inside_ns = kForever;
    for (const MemberIndex other : others) {
      const Leaving& leaving = at(other);
      if (leaving.inside()) {
        end.others_waited = true;
        inside_ns = std::min(inside_ns, leaving.inside_ns);
      }
      if (leaving.inside() && leaving.failed_ns != kForever) {
        end.failed_ns = std::min(end.failed_ns.value_or(kForever), leaving.failed_ns);
      }
    }
    if (was_killed_with(first, others, inside_ns) || crashed_alike(first, others)) {
      return std::nullopt;
    }
    add_leavers(end, others);
    const bool others_failed = std::ranges::any_of(others, [&](MemberIndex other) {
      return at(other).exit_ns != kForever && !ended_well(cluster_.member(other));
    });
    if (one.finished || (end.leavers.size() == 1 && !end.others_waited && !others_failed)) {
      end.kind = JobEnd::Kind::kAfterwards;
    }
    return end;
  }

  /// True if SIGKILL ended all of them at once, or ended this one after others had waited for it: a job that hung was
  /// ended.
  [[nodiscard]] bool was_killed_with(MemberIndex first, const std::vector<MemberIndex>& others,
                                     int64_t inside_ns) const {
    const auto killed = [&](MemberIndex member) { return cluster_.member(member).exit_signal == SIGKILL; };
    return killed(first) && !cluster_.member(first).oom_killed &&
           (std::ranges::all_of(others, killed) || (inside_ns != kForever && at(first).left_ns - inside_ns >= kHangNs));
  }

  /// True if others crashed inside calls like the first one: libraries end processes in that way when a call fails.
  [[nodiscard]] bool crashed_alike(MemberIndex first, const std::vector<MemberIndex>& others) const {
    const std::optional<int32_t>& signal = cluster_.member(first).exit_signal;
    return at(first).inside() && signal != SIGKILL && std::ranges::any_of(others, [&](MemberIndex other) {
             return at(other).inside() && cluster_.member(other).exit_signal == signal;
           });
  }

  /// Adds ranks that failed like the first one, at about the same time, while no rank waited: the order then means
  /// little.
  void add_leavers(JobEnd& end, const std::vector<MemberIndex>& others) const {
    const Member& one = cluster_.member(end.first());
    if (end.others_waited || at(end.first()).inside() || one.exit_signal == SIGKILL || ended_well(one)) {
      return;
    }
    for (const MemberIndex other : others) {
      const Member& member = cluster_.member(other);
      if (member.exit_code == one.exit_code && member.exit_signal == one.exit_signal &&
          at(other).left_ns - end.left_ns < kTogetherNs) {
        end.leavers.push_back(other);
      }
    }
    std::ranges::stable_sort(end.leavers, {}, [&](MemberIndex member) { return at(member).left_ns; });
    end.kind = end.leavers.size() > 1 ? JobEnd::Kind::kSeveral : JobEnd::Kind::kFirst;
  }

  const Timeline& timeline_;
  const Cluster& cluster_;
  std::vector<Leaving> leaving_;  // by member
  std::vector<size_t> job_;       // by member: another member of its job; a job's representative has itself
  std::map<size_t, std::vector<MemberIndex>> jobs_;
  std::map<uint32_t, std::vector<uint32_t>>
      waiting_;  // by group: sequences whose rank ended badly inside their last call
};

}  // namespace

bool failed_by_itself(const Member& member) { return failed_by_itself(member.exit_signal, member.exit_code); }

bool failed_by_itself(std::optional<int32_t> exit_signal, std::optional<int32_t> exit_code) {
  return (exit_signal || exit_code.value_or(0) != 0) && !was_asked_to_end(exit_signal, exit_code);
}

bool was_asked_to_end(std::optional<int32_t> exit_signal, std::optional<int32_t> exit_code) {
  return asks_to_end(exit_signal.value_or(exit_code.value_or(0) - kShellSignalBase));
}

bool ended_like_a_failed_call(const Member& member) { return !member.exit_signal || *member.exit_signal == SIGABRT; }

JobEnds JobEnds::find(const Timeline& timeline, const Cluster& cluster, const Flows& flows) {
  JobEnds found;
  const Search search(timeline, cluster, flows);
  found.end_of_.resize(cluster.members().size());
  for (const auto& [job, members] : search.jobs()) {
    if (std::optional<JobEnd> end = search.end_of(members)) {
      for (const MemberIndex member : members) {
        found.end_of_[member] = found.ends_.size();
      }
      found.ends_.push_back(std::move(*end));
    }
  }
  return found;
}

const JobEnd* JobEnds::of(MemberIndex member) const {
  if (member >= end_of_.size() || !end_of_[member] || ends_[*end_of_[member]].kind == JobEnd::Kind::kAfterwards) {
    return nullptr;
  }
  return &ends_[*end_of_[member]];
}

}  // namespace stalltrace::analysis
