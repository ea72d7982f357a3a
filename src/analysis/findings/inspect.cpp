// SPDX-License-Identifier: Apache-2.0
#include "analysis/findings/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "analysis/causes/cause.h"
#include "analysis/findings/cause_groups.h"
#include "analysis/timeline/instance.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr std::array<const char*, 3> kPartNames{"late", "transfer", "absent"};  // by StallPart

std::optional<Collective> row_of(EventSource& source, EventId id, Status& status) {
  std::optional<Collective> found;
  status = source.collectives({}, [&](const Collective& row) {
    if (row.event_id == id) {
      found = row;
    }
  });
  return found;
}

InspectedLike like_of(const WatchedInstance& watched) {
  return {.count = watched.transfer.count,
          .enough = watched.transfer.known,
          .usual_ns = watched.transfer.usual_ns,
          .median_ns = watched.transfer_spread.median_ns,
          .mad_ns = watched.transfer_spread.deviation_ns,
          .limit_ns = watched.transfer_limit_ns,
          .late_limit_ns = watched.late_limit_ns,
          .by_reference = watched.transfer.by_reference};
}

/// The measured value: the part of the reason that stalls and other parts share.
std::string measured(const Verdict& verdict, bool open) {
  const std::string length = format_duration(verdict.window.length());
  switch (verdict.part) {
    case StallPart::kLate:
      return fmt::format("the others waited {} for the last rank", length);
    case StallPart::kAbsent:
      return fmt::format("for {} a rank that the others wait for has not come", length);
    case StallPart::kTransfer:
      break;
  }
  return (open ? "it has not ended for " : "the transfer took ") + length;
}

/// The verdict as a sentence. `open`: the instance has not ended; `enough`: its baseline is known.
std::string why(const Verdict& verdict, bool open, bool enough) {
  const bool hang = verdict.part == StallPart::kAbsent || (verdict.part == StallPart::kTransfer && open);
  const std::string what = measured(verdict, open);
  const std::string value = format_duration(verdict.value_ns);
  const std::string limit = format_duration(verdict.limit_ns);
  const bool unknown = verdict.part == StallPart::kTransfer && !open && !enough;
  const std::string_view since = unknown ? ", since too few of its kind are known to show what is usual" : "";
  switch (verdict.reason) {
    case VerdictReason::kTooLong:
      return fmt::format("{}; over {} is a stall{}", what, limit, since);
    case VerdictReason::kHang:
      return fmt::format("{}; over {} is a hang", what, limit);
    case VerdictReason::kEndedJob:
      return fmt::format("{} when the job ended in it", what);
    case VerdictReason::kWrongData:
      return "all ranks ended it though they had entered different calls: its data is wrong";
    case VerdictReason::kBelowLimit:
      return fmt::format("{}; only over {} is a {}{}", what, limit, hang ? "hang" : "stall", since);
    case VerdictReason::kNoBaseline:
      return fmt::format("{}; only over {} is a stall, since too few calls of the pair are known to show what is usual",
                         what, limit);
    case VerdictReason::kWarmingUp:
      return fmt::format("{}; of the first of a communicator, only over {} is a stall", what, limit);
    case VerdictReason::kPairUsual:
      return fmt::format("{}, which is usual for this pair: only over {} is a stall", what, limit);
    case VerdictReason::kClockUncertain:
      return fmt::format("{} by clocks of hosts that cannot be compared: who came last is not known", what);
    case VerdictReason::kNoRankWaited:
      return fmt::format("{}, but no rank was inside any more when it came", what);
    case VerdictReason::kInBatch:
      return fmt::format(
          "{}, by the end of a synchronisation that completed later calls, too: only the last of them is "
          "judged",
          what);
    case VerdictReason::kStepAsUsual:
      return fmt::format("{}, but from one synchronisation to the next the step took no longer than usual", what);
    case VerdictReason::kStepUnknown:
      return fmt::format(
          "{} by the end of a synchronisation of several calls; too few such steps are known to show what is usual{}",
          what,
          verdict.value_ns <= verdict.limit_ns ? fmt::format(", and only more than {} counts as a stall", limit) : "");
    case VerdictReason::kInPreviousCall:
      return fmt::format(
          "{}, but it was in its previous collective until {} before it came: only that could be its own lateness, and "
          "only over {} is a stall",
          what, value, limit);
    case VerdictReason::kWaitedForLateRank:
      return fmt::format(
          "{}, but in that time its ranks also waited for a late rank elsewhere: {} remain, and only over {} is a "
          "stall",
          what, value, limit);
    case VerdictReason::kMayStillCome:
      return fmt::format("{}, but it is often late: only over {} it is missed", what, limit);
    case VerdictReason::kStillLaunching:
      return fmt::format(
          "{}, but until less than {} before, the thread that launched it launched calls on other communicators", what,
          limit);
    case VerdictReason::kHeldUpElsewhere:
      return fmt::format("{}: it is held up by another instance, which is judged instead", what);
    case VerdictReason::kOthersWentOn:
      return fmt::format("{} at some rank, but later calls of its communicator ended", what);
    case VerdictReason::kEndUnknown:
      return "its end is not reported";
    case VerdictReason::kOutsideRange:
      return fmt::format("{}; over {} is a stall, but it lies outside of --from/--to", what, limit);
    case VerdictReason::kLeftOut:
      return fmt::format("{}; over {} is a stall, but too many stalls cost more: a shorter time range shows it", what,
                         limit);
  }
  return what;
}

std::vector<InspectedCause> causes_of(const AnalysisContext& context, const Decision& decision, bool stall) {
  std::vector<InspectedCause> causes;
  for (const CauseRule& rule : cause_rules()) {
    bool spoke = false;
    for (size_t i = 0; i < decision.hypotheses.size(); ++i) {
      const Hypothesis& hypothesis = decision.hypotheses[i];
      if (hypothesis.cause != rule.cause) {
        continue;
      }
      spoke = true;
      const FaultLocation& where = hypothesis.location;
      const std::string location = where.culprit != kNoMember ? short_name(context.cluster, where.culprit)
                                   : where.node               ? context.cluster.node_name(*where.node)
                                                              : "";
      causes.push_back({.cause = rule.cause,
                        .chosen = stall && i == decision.chosen,
                        .applies = hypothesis.applies,
                        .dismissed = hypothesis.dismissed,
                        .share = rule.fallback ? std::nullopt : std::optional(hypothesis.coverage),
                        .text = hypothesis.why.empty() ? location : hypothesis.why});
    }
    if (!spoke && !rule.fallback) {
      causes.push_back({.cause = rule.cause, .text = std::string(rule.needs)});
    }
  }
  return causes;
}

/// `stall` is false for a part that is no stall but was judged like one.
InspectedPart part_of(const AnalysisContext& context, const Instance& instance, const Decision& decision,
                      const InspectedLike& like, bool stall) {
  const Stall& judged = decision.stall;
  const Verdict& verdict = judged.verdict;
  return {.name = kPartNames[static_cast<size_t>(judged.part())],
          .time = {judged.window.from_ns, judged.window.to_ns},
          .lost_ns = stall ? judged.lost_ns : 0,
          .stall = stall,
          .reason = verdict.reason,
          .value_ns = verdict.value_ns,
          .limit_ns = verdict.limit_ns,
          .why = why(verdict, !instance.completed(), like.enough),
          .causes = causes_of(context, decision, stall)};
}

std::vector<InspectedPart> parts_of(const AnalysisContext& context, const Instance& instance, const InspectedLike& like,
                                    const WatchedInstance& watched, const std::vector<Decision>& decisions) {
  std::vector<InspectedPart> parts;
  std::set<StallPart> stalled;
  for (const Decision& decision : decisions) {
    if (decision.stall.instance() == InstanceId{instance.group, instance.number}) {
      parts.push_back(part_of(context, instance, decision, like, true));
      if (decision.finding) {
        parts.back().finding = static_cast<int64_t>(*decision.finding) + 1;
      }
      stalled.insert(decision.stall.part());
    }
  }
  for (const Stall& declined : watched.declined) {
    if (!stalled.contains(declined.part())) {
      parts.push_back(part_of(context, instance, decide(context, declined), like, false));
    }
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const InspectedPart& a, const InspectedPart& b) { return a.time.from_ns < b.time.from_ns; });
  return parts;
}

/// How the instance's time splits, and whether it overlaps the range.
void describe_times(const Instance& instance, const TimeRange& range, Inspection& inspection) {
  const int64_t first_ns = instance.seen.front().arrival_ns;
  const int64_t end_ns = instance.completed() ? instance.completion_ns : kForever;
  inspection.outside_range = range.from_ns > end_ns || range.to_ns <= first_ns;
  inspection.late_ns = instance.late_ns();
  if (!instance.completed()) {
    return;
  }
  inspection.transfer_ns = instance.transfer_ns();
  const int64_t longest_ns = instance.completion_ns - first_ns;
  if (inspection.like.enough && longest_ns > inspection.like.usual_ns) {
    inspection.split = share_of(longest_ns - instance.transfer_ns(), longest_ns - inspection.like.usual_ns);
  }
}

}  // namespace

Result<InstanceId> find_instance(EventSource& source, const Cluster& cluster, const Timeline& timeline, EventId id) {
  Status read;
  const std::optional<Collective> row = row_of(source, id, read);
  ST_TRY(read);
  const std::string name = fmt::format("{}:{}", cluster.node_name(node_of(id)), number_of(id));
  if (!row) {
    return fail(fmt::format("no call {} in these recordings", name),
                "stalltrace query FILE \"SELECT name FROM event_name WHERE kind = 'collective'\" lists them",
                ErrorKind::kNotFound);
  }
  if (row->completion == Completion::kCaptured) {
    return fail(fmt::format("{} was captured into a CUDA graph and did not run: it has no instance", name),
                "name a call that ran", ErrorKind::kUsage);
  }
  const MemberIndex member = cluster.find(row->node_id, row->pid);
  const int64_t arrival_ns = cluster.clock().to_common(row->node_id, row->timestamp_ns);
  for (const CallSequence& sequence : timeline.sequences()) {
    if (sequence.member != member || sequence.hash != row->comm_id_hash || sequence.comm_ptr != row->comm_ptr) {
      continue;
    }
    const auto call = std::find_if(sequence.calls.begin(), sequence.calls.end(), [&](const Call& c) {
      return c.present && c.arrival_ns == arrival_ns && timeline.signature(c.signature).bytes == signature_bytes(*row);
    });
    const int64_t number = sequence.first_number() + (call - sequence.calls.begin());
    if (call != sequence.calls.end() && (!row->seq || sequence.number_offset + *row->seq == number)) {
      return InstanceId{sequence.group, number};
    }
  }
  return fail(fmt::format("{} is a {}: it has no instance on other ranks", name, display_name(row->op)),
              "name a call that moves data", ErrorKind::kUsage);
}

Inspection inspect(const AnalysisContext& context, const InspectionQuery& query, const WatchedInstance& watched,
                   const std::vector<Decision>& decisions) {
  const Timeline& timeline = context.timeline;
  Instance instance;
  Inspection inspection{.event_id = query.id, .number = query.instance.number, .warming_up = watched.warming_up};
  if (!read_instance(timeline, query.instance.group, query.instance.number, instance)) {
    return inspection;
  }
  inspection.like = like_of(watched);
  inspection.op = timeline.signature(instance.signature).op;
  inspection.bytes = timeline.payload(instance.group, instance.signature).value_or(0);
  inspection.comm_id_hash = timeline.groups()[instance.group].hash;
  if (context.cluster.attempts() > 1) {
    inspection.attempt = timeline.groups()[instance.group].attempt + int64_t{1};
  }
  for (const Arrival& seen : instance.seen) {
    inspection.calls.push_back({.who = context.cluster.describe(timeline.sequences()[seen.sequence].member),
                                .arrival_ns = seen.arrival_ns,
                                .end_ns = seen.end_ns == kForever ? std::nullopt : std::optional(seen.end_ns),
                                .unobserved = seen.end_ns == kForever && !seen.open});
  }
  for (const uint32_t sequence : instance.absent) {
    inspection.absent.push_back(context.cluster.describe(timeline.sequences()[sequence].member));
  }
  describe_times(instance, query.range, inspection);
  inspection.parts = parts_of(context, instance, inspection.like, watched, decisions);
  return inspection;
}

}  // namespace stalltrace::analysis
