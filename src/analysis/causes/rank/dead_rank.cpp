// SPDX-License-Identifier: Apache-2.0
// dead_rank: a rank's process ended while others were inside a collective, or a rank ended the job by leaving it first
// (job_ends.h). Of several deaths only the first is reported: the other ranks' watchdogs and launchers end them because
// of it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/causes/cause.h"
#include "analysis/causes/rank/activity.h"
#include "analysis/causes/rank/elsewhere.h"
#include "analysis/thresholds/bounds.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/gates.h"
#include "analysis/thresholds/hangs.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr int kSigKill = 9;

/// How the rank left the job; null if it was ended from outside, or was not the first to leave.
const JobEnd* job_end(const AnalysisContext& context, const Stall& stall) {
  const JobEnd* end = context.ends.of(stall.root().member);
  return end != nullptr && end->first() == stall.root().member ? end : nullptr;
}

/// True if another rank, which was not recorded, may have ended before it: its call may have failed because of that.
bool may_have_followed(const AnalysisContext& context, MemberIndex member) {
  const bool inside = std::ranges::any_of(context.timeline.sequences_of(member), [&](uint32_t index) {
    const CallSequence& sequence = context.timeline.sequences()[index];
    const bool open = !sequence.calls.empty() && sequence.calls.back().is_open();
    return open && !sequence.ends_unseen() && !sequence.destroyed && !sequence.continued;
  });
  return inside && partly_known_communicator(context, member) != nullptr &&
         ended_like_a_failed_call(context.cluster.member(member));
}

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  if (stall.root().kind != HangKind::kDead || may_have_followed(context, stall.root().member)) {
    return;
  }
  const Member& member = context.cluster.member(stall.root().member);
  Hypothesis hypothesis{.cause = Cause::kDeadRank, .location = {.culprit = stall.root().member}};
  const std::string name = short_name(context.cluster, stall.root().member);
  if (const JobEnd* end = job_end(context, stall)) {
    hypothesis.coverage = 1;
    hypothesis.why = name + " left before any other rank";
    if (end->kind == JobEnd::Kind::kSeveral) {
      hypothesis.location.culprit = kNoMember;
      hypothesis.why = fmt::format("{} ranks left at about the same time", end->leavers.size());
    }
  } else {
    const int64_t alone_ns = stall.window.to_ns - std::max(*member.exit_ns, stall.window.from_ns);
    hypothesis.coverage = share_of(alone_ns, stall.window.length());
    hypothesis.why = fmt::format("{} had ended for {} of {}", name, format_duration(alone_ns),
                                 format_duration(stall.window.length()));
  }
  hypothesis.applies = hypothesis.coverage >= kCoverage;
  out.push_back(std::move(hypothesis));
}

/// `from_ns`: when the first process ended or left.
void add_later_deaths(const AnalysisContext& context, MemberIndex first, int64_t from_ns, Finding& finding) {
  for (size_t i = 0; i < context.cluster.members().size(); ++i) {
    const Member& other = context.cluster.members()[i];
    if (i != first && other.exit_ns && context.concerns(other) && *other.exit_ns > from_ns &&
        *other.exit_ns - from_ns < kDeathsApartNs) {
      finding.evidence.push_back({"process_exit",
                                  1,
                                  fmt::format("{} {}, {} later", context.cluster.describe(static_cast<MemberIndex>(i)),
                                              other.how_it_ended(), format_duration(*other.exit_ns - from_ns)),
                                  {}});
    }
  }
}

/// Folded over the ranks: "ranks 0, 1 raised ValueError in load_batch (data.py:212)".
void add_exceptions(const AnalysisContext& context, const std::vector<MemberIndex>& members, Finding& finding) {
  std::vector<std::pair<std::string, std::vector<MemberIndex>>> folded;
  int64_t count = 0;
  for (const MemberIndex member : members) {
    const RaisedException* raised = context.raised.that_ended(context.cluster, member);
    if (raised == nullptr) {
      continue;
    }
    ++count;
    const std::string text = raised->text();
    auto known = std::ranges::find(folded, text, &std::pair<std::string, std::vector<MemberIndex>>::first);
    if (known == folded.end()) {
      known = folded.insert(known, {text, {}});
    }
    known->second.push_back(member);
  }
  constexpr size_t kMostNamed = 4;
  std::vector<std::string> parts;
  for (const auto& [text, ranks] : folded) {
    if (parts.size() < kMostNamed) {
      const std::string names = ranks.size() == 1 ? short_name(context.cluster, ranks[0]) : names_of(context, ranks);
      parts.push_back(fmt::format("{} raised {}", names, text));
    }
  }
  if (folded.size() > kMostNamed) {
    parts.push_back(fmt::format("others raised {} others", folded.size() - kMostNamed));
  }
  if (!parts.empty()) {
    finding.evidence.push_back({"python_exception", count, fmt::format("{}", fmt::join(parts, "; ")), {}});
  }
}

std::string remedy_for(const Member& member, const RaisedException* raised) {
  if (raised != nullptr && !raised->location.empty() && member.exit_code.value_or(0) != 0) {
    return fmt::format("look at {}, which raised {}; the message is in the log of pid {} on {}", raised->location,
                       raised->type, member.pid, member.node);
  }
  if (member.oom_killed) {
    return fmt::format(
        "see what filled the memory of {} or of the process's cgroup (dmesg names the limit): a larger memory limit, "
        "fewer data loader workers, a smaller batch on the host side",
        member.node);
  }
  if (member.exit_signal == kSigKill) {
    return fmt::format(
        "see who killed pid {} on {}: the kernel because memory ran out (dmesg, memory.events of its cgroup), the "
        "scheduler, a person",
        member.pid, member.node);
  }
  if (!member.exit_signal && member.exit_code == 0) {
    return fmt::format(
        "see why pid {} on {} left with exit code 0: sys.exit, os._exit or return on this rank alone, fewer steps or "
        "less data than the others have",
        member.pid, member.node);
  }
  return fmt::format("read the log of pid {} on {} first: the other ranks' errors follow from its end", member.pid,
                     member.node);
}

/// True if the rank had entered the stalled instance; otherwise it is absent from it.
bool was_inside(const AnalysisContext& context, const Stall& stall, MemberIndex member) {
  return std::ranges::any_of(context.timeline.groups()[stall.group].sequences, [&](uint32_t index) {
    const CallSequence& sequence = context.timeline.sequences()[index];
    return sequence.member == member && sequence.call_at(stall.number) != nullptr;
  });
}

/// The rank's last collective, and its activity since then.
void add_last_work(const AnalysisContext& context, const JobEnd& end, const Stall& stall, Finding& finding) {
  if (!end.last) {
    finding.evidence.push_back({"collective", 0, "it had come out of no collective before", {}});
    return;
  }
  const int64_t since_ns = std::max<int64_t>(0, end.left_ns - end.last_end_ns);
  finding.evidence.push_back({"collective",
                              1,
                              fmt::format("its last collective was {}, which ended {} before that",
                                          call_text(context, *end.last), format_duration(since_ns)),
                              {}});
  const Interval own{std::max(end.last_end_ns, end.left_ns - kEvidenceMarginNs), end.left_ns};
  if (end.kind != JobEnd::Kind::kFirst || own.length() <= 0 || was_inside(context, stall, end.first())) {
    return;
  }
  const Activity activity = activity_of(context, end.first(), own, stall.calling_tid());
  if (activity.known) {
    finding.evidence.push_back(activity_evidence(context, end.first(), activity));
  }
  if (!end.others_waited) {
    finding.evidence.push_back({"collective",
                                0,
                                "no other rank entered a collective since: they may have met the same error, before "
                                "they were ended or could report it",
                                {}});
  }
}

/// Which rank left first, and what followed.
void add_order(const AnalysisContext& context, const JobEnd& end, Finding& finding) {
  const Member& member = context.cluster.member(end.first());
  const std::string name = short_name(context.cluster, end.first());
  const std::string text =
      end.closed_first
          ? fmt::format(
                "{} closed a connection to another rank {} before its process {}; no other rank had left before", name,
                format_duration(*member.exit_ns - end.left_ns), member.how_it_ended())
          : fmt::format("{} {}; no other process had ended before", name, member.how_it_ended());
  finding.evidence.push_back({"process_exit", 1, text, {}});
  if (end.failed_ns) {
    finding.evidence.push_back({"collective",
                                1,
                                *end.failed_ns >= end.left_ns
                                    ? fmt::format("calls of other ranks failed from {} after that on",
                                                  format_duration(*end.failed_ns - end.left_ns))
                                    : "calls of other ranks failed at about the same time",
                                {}});
  }
}

void describe_several(const AnalysisContext& context, const JobEnd& end, Finding& finding) {
  const Member& first = context.cluster.member(end.first());
  const auto exit_ns = [&](MemberIndex member) { return *context.cluster.member(member).exit_ns; };
  const auto [earliest, latest] = std::ranges::minmax(end.leavers, {}, exit_ns);
  const int64_t apart_ns = exit_ns(latest) - exit_ns(earliest);
  finding.summary = fmt::format(
      "{}{} ranks ({}) failed within {} of each other: each {}, none of them inside a recorded collective. The job "
      "ended.",
      end.leavers.size() == end.ranks ? "All " : "", end.leavers.size(), names_of(context, end.leavers),
      format_duration(apart_ns), first.how_it_ended());
  add_order(context, end, finding);
  finding.remedy = fmt::format(
      "read the logs of these ranks, first that of pid {} on {}, which left first: it is one error on all of them, or "
      "the others' errors follow from its end",
      first.pid, first.node);
}

void describe_first(const AnalysisContext& context, const JobEnd& end, const CauseGroup& group, const Stall& stall,
                    Finding& finding) {
  const Member& member = context.cluster.member(end.first());
  const bool inside = was_inside(context, stall, end.first());
  const bool all_recorded = context.timeline.groups()[stall.group].all_took_part;
  finding.summary =
      fmt::format("{} {}, before any other{} rank{}{}: {}.", capitalised(context.cluster.describe(end.first())),
                  member.how_it_ended(" by itself"), all_recorded ? "" : " recorded",
                  !member.exit_signal && member.exit_code == 0 ? " and while others waited for it" : "",
                  inside     ? fmt::format(" and inside {}", call_text(context, stall))
                  : end.last ? fmt::format(", after {}", short_call_text(context, *end.last))
                             : "",
                  cost_text(group));
  if (const RaisedException* raised = context.raised.that_ended(context.cluster, end.first())) {
    finding.summary += fmt::format(" It raised {}.", raised->brief());
  }
  add_order(context, end, finding);
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const Stall& stall = *group.stalls.front();
  const JobEnd* end = job_end(context, stall);
  const MemberIndex first = stall.root().member;
  const Member& member = context.cluster.member(first);
  if (end == nullptr) {
    finding.summary =
        fmt::format("{} {} while others were inside collectives: {}.", capitalised(context.cluster.describe(first)),
                    member.how_it_ended(), cost_text(group));
    finding.evidence.push_back({"process_exit",
                                1,
                                fmt::format("{} {}; no other process had ended before",
                                            short_name(context.cluster, first), member.how_it_ended()),
                                {}});
  } else if (end->kind == JobEnd::Kind::kSeveral) {
    describe_several(context, *end, finding);
  } else {
    describe_first(context, *end, group, stall, finding);
  }
  add_exceptions(context, end != nullptr ? end->leavers : std::vector{first}, finding);
  if (member.oom_killed) {
    finding.evidence.push_back(
        {"mark_victim", 1, fmt::format("the kernel chose pid {} to free memory", member.pid), {}});
  }
  if (end != nullptr) {
    add_last_work(context, *end, stall, finding);
  }
  add_later_deaths(context, first, end != nullptr ? end->left_ns : *member.exit_ns, finding);
  if (!stall.no_rank_waited()) {
    finding.evidence.push_back(waiting_evidence(context, stall));
  }
  if (finding.remedy.empty()) {
    finding.remedy = remedy_for(member, context.raised.that_ended(context.cluster, first));
  }
}

}  // namespace

extern const CauseRule kDeadRankRule{.cause = Cause::kDeadRank,
                                     .gate = kHangGate,
                                     .needs = "no rank that the others waited for had ended",
                                     .judge = judge,
                                     .describe = describe,
                                     .ends_jobs = true};

}  // namespace stalltrace::analysis
