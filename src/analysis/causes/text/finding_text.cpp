// SPDX-License-Identifier: Apache-2.0
// Text helpers of all causes: names, counts, cost.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analysis/causes/cause.h"
#include "analysis/thresholds/stalls.h"
#include "base/numbers/median.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

std::string single_node_text(const Stall& longest, const std::string& length) {
  if (longest.root().kind == HangKind::kDead) {
    return fmt::format(
        "its communicator was in use; the other ranks, which were not recorded, have been without it for {}", length);
  }
  return fmt::format("data of a rank that was not recorded {} {} for this rank, which was in no collective",
                     longest.hung() ? "have waited" : "waited up to", length);
}

const Stall& longest_of(const CauseGroup& group) {
  return **std::ranges::max_element(group.stalls, {}, &Stall::lost_ns);
}

/// Of a stall that was judged by another run: what it was compared with, and what was.
int64_t usual_of(const Stall& stall) { return stall.step ? stall.step->usual_ns : stall.usual_ns.value_or(0); }
int64_t took_of(const Stall& stall) { return stall.step ? stall.step->took_ns : stall.window.length(); }

/// "took 18.5 ms, up to 25 ms; that is 4.0 times the usual 4.62 ms of the run given by --like"
std::string compared_text(const TimesByReference& times) {
  const std::string factor = times.usual_ns < kNsPerUs
                                 ? "less than 1 us is usual in"
                                 : fmt::format("that is {:.1f} times the usual {} of",
                                               static_cast<double>(times.took_ns) / static_cast<double>(times.usual_ns),
                                               format_duration(times.usual_ns));
  return fmt::format("{}, up to {}; {} the run given by --like", format_duration(times.took_ns),
                     format_duration(times.longest_ns), factor);
}

}  // namespace

double share_of(int64_t part_ns, int64_t whole_ns) {
  return whole_ns <= 0 ? 0 : std::clamp(static_cast<double>(part_ns) / static_cast<double>(whole_ns), 0.0, 1.0);
}

std::string short_name(const Cluster& cluster, MemberIndex index) {
  const Member& member = cluster.member(index);
  return member.rank ? fmt::format("rank {}", *member.rank) : fmt::format("pid {} on {}", member.pid, member.node);
}

std::string cost_text(const CauseGroup& group) {
  if (ended_job(group)) {
    return group.instances == 0 ? "the job ended"
                                : fmt::format("the job ended after {} of waiting", format_duration(group.longest_ns));
  }
  if (group.waiting) {
    return fmt::format("the recorded ranks have waited for {}", format_duration(group.longest_ns));
  }
  if (group.hung) {
    return fmt::format("the job has hung for {}", format_duration(group.longest_ns));
  }
  return fmt::format("the job lost {} in {}{}", format_duration(group.lost.total_ns()),
                     count_of(group.instances, "collective"),
                     longest_of(group).by_reference ? " against the run given by --like" : "");
}

std::optional<TimesByReference> times_by_reference(const CauseGroup& group) {
  const Stall& longest = longest_of(group);
  if (!longest.by_reference) {
    return std::nullopt;
  }
  std::vector<int64_t> took;
  for (const Stall* stall : group.stalls) {
    if (stall->by_reference && stall->step.has_value() == longest.step.has_value() &&
        usual_of(*stall) == usual_of(longest)) {
      took.push_back(took_of(*stall));
    }
  }
  const int64_t most_ns = std::ranges::max(took);
  return TimesByReference{usual_of(longest), lower_median(std::move(took)), most_ns};
}

bool ended_job(const CauseGroup& group) {
  const auto ended = [](const Stall* stall) { return stall->ended_job(); };
  return group.hung && std::ranges::any_of(group.stalls, ended) &&
         (group.longest_ns < kHangNs || std::ranges::all_of(group.stalls, ended));
}

std::string more_text(const CauseGroup& group) {
  return fmt::format("{} more in {}", format_duration(group.lost.total_ns()), count_of(group.instances, "collective"));
}

Evidence stall_evidence(const AnalysisContext& context, const CauseGroup& group) {
  const Stall* longest = &longest_of(group);
  const std::string_view op = display_name(context.timeline.signature(longest->signature).op);
  const std::string length = format_duration(longest->window.length());
  const std::string_view more = longest->hung() ? " and did not end" : "";
  Evidence evidence{"collective", group.instances, "", {}};
  if (longest->single_node) {
    evidence.kind = "tcp_sample";
    evidence.text = single_node_text(*longest, length);
    return evidence;
  }
  if (longest->no_rank_waited()) {
    const JobEnd* end = context.ends.of(longest->root().member);
    evidence.text = end != nullptr && end->others_waited
                        ? "other ranks were inside collectives that this rank had come out of"
                        : "no rank was inside a collective at that time";
    return evidence;
  }
  const std::optional<TimesByReference> compared = times_by_reference(group);
  if (compared && longest->step) {
    evidence.text = fmt::format("one synchronisation ends {}: from the one before, it took {}",
                                count_of(longest->step->calls, fmt::format("{} call", op)), compared_text(*compared));
    return evidence;
  }
  if (compared && longest->part() == StallPart::kTransfer && !longest->hung()) {
    evidence.text = fmt::format("{} transfers took {}", op, compared_text(*compared));
    return evidence;
  }
  if (longest->step) {
    evidence.text = fmt::format("one synchronisation ends {}: it came up to {} after the one before; usual here is {}",
                                count_of(longest->step->calls, fmt::format("{} call", op)),
                                format_duration(longest->step->took_ns), format_duration(longest->step->usual_ns));
    return evidence;
  }
  switch (longest->part()) {
    case StallPart::kLate:
      evidence.text = fmt::format("the others waited up to {} for the last rank to arrive ({})", length, op);
      break;
    case StallPart::kAbsent:
      evidence.text = fmt::format("the others were inside {} for {}; this rank did not enter it", op, length);
      break;
    case StallPart::kTransfer:
      evidence.text = longest->usual_ns
                          ? fmt::format("{} transfers took up to {}{}; usual here is {}", op, length, more,
                                        format_duration(*longest->usual_ns))
                          : fmt::format("{} transfers took up to {}{}; too few comparable ones to know what is usual",
                                        op, length, more);
      break;
  }
  return evidence;
}

Culprit culprit_of(const Cluster& cluster, MemberIndex index) {
  const Member& member = cluster.member(index);
  return {member.node, member.rank, member.pid};
}

IntervalSet time_of(const CauseGroup& group) {
  std::vector<Interval> times;
  for (const Stall* stall : group.stalls) {
    times.push_back(stall->examined());
  }
  return IntervalSet(std::move(times));
}

void count_cost(const AnalysisContext& context, CauseGroup& group) {
  std::vector<Interval> lost;
  std::set<InstanceId> instances;
  group.longest_ns = 0;
  for (const Stall* stall : group.stalls) {
    lost.push_back(context.judged ? intersect(stall->lost(), *context.judged) : stall->lost());
    if (!stall->no_rank_waited()) {
      instances.insert(stall->instance());
    }
    group.longest_ns = std::max(group.longest_ns, stall->lost_ns);
  }
  group.lost = IntervalSet(std::move(lost));
  group.instances = std::max(static_cast<int64_t>(instances.size()), group.wrong_data);
}

void merge(CauseGroup& into, CauseGroup&& from) {
  const auto a = static_cast<double>(into.lost.total_ns());
  const auto b = static_cast<double>(from.lost.total_ns());
  into.coverage = a + b > 0 ? (into.coverage * a + from.coverage * b) / (a + b) : into.coverage;
  into.stalls.insert(into.stalls.end(), from.stalls.begin(), from.stalls.end());
  std::vector<Interval> lost = into.lost.intervals();
  lost.insert(lost.end(), from.lost.intervals().begin(), from.lost.intervals().end());
  into.lost = IntervalSet(std::move(lost));
  into.longest_ns = std::max(into.longest_ns, from.longest_ns);
  into.instances += from.instances;
  into.hung = into.hung || from.hung;
  into.ended_job = into.ended_job || from.ended_job;
  into.wrong_data += from.wrong_data;
  into.counters.merge(from.counters);
  into.flows.insert(from.flows.begin(), from.flows.end());
}

}  // namespace stalltrace::analysis
