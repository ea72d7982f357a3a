// SPDX-License-Identifier: Apache-2.0
// unknown: time was lost and no rule covers half of it. Names the location, if known, and the missing evidence.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>

#include "analysis/causes/cause.h"
#include "analysis/causes/library_advice.h"
#include "analysis/causes/network/ack_gap.h"
#include "analysis/causes/network/drops.h"
#include "analysis/causes/network/links.h"
#include "analysis/causes/open_wait.h"
#include "analysis/causes/rank/activity.h"
#include "analysis/causes/rank/elsewhere.h"
#include "analysis/causes/rank/pauses.h"
#include "analysis/causes/recorded_kinds.h"
#include "analysis/evidence/wait_graph.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/gates.h"
#include "analysis/thresholds/network.h"
#include "analysis/thresholds/stalls.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

/// True if all ranks have been in one of their communicator's first instances for a short time.
bool is_connecting(const AnalysisContext& context, const Stall& stall) {
  return is_warming_up(context.timeline.groups()[stall.group], stall.number) && stall.part() == StallPart::kTransfer &&
         !stall.ended_job() && stall.lost_ns < kConnectingNs;
}

/// The rank that the others wait for: the late or absent one, or that at the end of the waits on connections.
MemberIndex awaited_rank(const AnalysisContext& context, const Stall& stall) {
  if (stall.part() != StallPart::kTransfer) {
    return stall.suspects.size() == 1 ? stall.suspects[0] : kNoMember;
  }
  const WaitGraph graph =
      build_wait_graph(context.cluster, context.flows, context.evidence, stall.members, stall.examined(),
                       [&](const Flow& flow) { return may_carry(context, stall, flow); });
  return graph.sinks.size() == 1 ? graph.sinks[0] : kNoMember;
}

/// A communicator with ranks whose calls are not known: the stall's own, or another one of the rank that the others
/// wait for. Null if there is none.
const Group* communicator_in_part(const AnalysisContext& context, const Stall& stall) {
  const std::vector<Group>& groups = context.timeline.groups();
  if (!groups[stall.group].all_took_part) {
    return &groups[stall.group];
  }
  if (std::ranges::all_of(groups, &Group::all_took_part)) {
    return nullptr;
  }
  const MemberIndex awaited = awaited_rank(context, stall);
  return awaited == kNoMember ? nullptr : partly_known_communicator(context, awaited);
}

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  Hypothesis hypothesis{.cause = Cause::kUnknown, .applies = true};
  if (is_connecting(context, stall)) {
    hypothesis.dismissed = true;
    hypothesis.why = "ranks connect in the first calls of a communicator";
  } else if ((stall.part() == StallPart::kLate || stall.step) && is_settling(context, stall)) {
    hypothesis.dismissed = true;
    hypothesis.why = "ranks compile and fill caches in the first steps, each for its own time";
  } else if (!context.timeline.groups()[stall.group]
                  .all_took_part) {  // whom the others wait for may wait for those in turn
    hypothesis.why = "ranks that were not recorded may be those that the others wait for";
  } else if (const MemberIndex awaited = awaited_rank(context, stall); awaited != kNoMember) {
    const std::string name = short_name(context.cluster, awaited);
    hypothesis.why = stall.part() == StallPart::kTransfer
                         ? "connections and transfers show that the others wait for " + name
                         : fmt::format("the others wait for {}; the recording does not show why", name);
    if (partly_known_communicator(context, awaited) == nullptr) {
      hypothesis.location.culprit = awaited;
    } else {
      hypothesis.why += "; it may wait on another communicator, for ranks that were not recorded";
    }
  }
  out.push_back(std::move(hypothesis));
}

int64_t overlap_ns(const IntervalSet& a, const IntervalSet& b) {
  int64_t sum_ns = 0;
  for (const Interval& interval : a.intervals()) {
    sum_ns += b.covered_ns(interval);
  }
  return sum_ns;
}

/// Whether the smaller of two costs was of the same time as the other.
bool is_at_one_time(const CauseGroup& a, const CauseGroup& b) {
  const int64_t shorter_ns = std::min(a.lost.total_ns(), b.lost.total_ns());
  return share_of(overlap_ns(a.lost, b.lost), shorter_ns) >= kCoverage;
}

/// Ranks that others waited for at the same time waited for each other, or for one of them, and one that is awaited in
/// one call may be held up by another call that hangs. Which one it began with is not known: then none is named.
void join_awaited(std::vector<CauseGroup>& groups) {
  const auto named = [](const CauseGroup& group) { return group.location.culprit != kNoMember; };
  std::vector<size_t> first(groups.size());  // of those that are joined with it
  std::iota(first.begin(), first.end(), size_t{0});
  std::vector<bool> joined(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    for (size_t k = i + 1; k < groups.size(); ++k) {
      const bool awaited = named(groups[i]) && named(groups[k]);
      const bool held_up = (named(groups[i]) || named(groups[k])) && groups[i].hung && groups[k].hung;
      if (first[i] != first[k] && (awaited || held_up) && is_at_one_time(groups[i], groups[k])) {
        const auto [to, from] = std::minmax(first[i], first[k]);
        std::ranges::replace(first, size_t{from}, size_t{to});
        joined[i] = joined[k] = true;
      }
    }
  }
  const std::vector<bool> awaited = joined;
  for (size_t i = 0; i < groups.size(); ++i) {
    for (size_t k = 0; k < groups.size() && !joined[i] && groups[i].location.key() == FaultLocation{}.key(); ++k) {
      // Of most of its time: else an old stall would become a part of what came later.
      if (awaited[k] && share_of(overlap_ns(groups[i].lost, groups[k].lost), groups[i].lost.total_ns()) >= kCoverage) {
        first[i] = first[k];
        joined[i] = true;
      }
    }
  }
  for (size_t i = groups.size(); i-- > 0;) {
    if (joined[i]) {
      groups[i].location = {};
    }
    if (first[i] != i) {
      merge(groups[first[i]], std::move(groups[i]));
      groups[i].stalls.clear();
    }
  }
  std::erase_if(groups, [](const CauseGroup& group) { return group.stalls.empty(); });
}

/// The others waited for few pauses of one rank: a recorded one that was late each time, or one that was not recorded,
/// as far as the steps of those who waited show.
bool is_rare(const AnalysisContext& context, const CauseGroup& group) {
  if (group.location.culprit != kNoMember) {
    const auto late = [](const Stall* stall) { return stall->part() == StallPart::kLate; };
    return std::ranges::all_of(group.stalls, late) && is_rare_pause(context, group, group.location.culprit);
  }
  const auto in_part = [&](const Stall* stall) { return communicator_in_part(context, *stall) != nullptr; };
  const std::vector<MemberIndex>& members = group.stalls.front()->members;
  return !group.hung && !members.empty() && std::ranges::all_of(group.stalls, in_part) &&
         is_rare_pause(context, group, members.front());
}

/// Stalls of devices are here where slow_device stepped back. What is ordinary by its rule, as where work is uneven and
/// now this device is last, now that one, is no less so.
void drop_uneven_work(const AnalysisContext& context, std::vector<CauseGroup>& groups) {
  std::vector<CauseGroup> by_device;
  for (const CauseGroup& group : groups) {
    for (const Stall* stall : group.stalls) {
      if (!stall->on_device()) {
        continue;
      }
      const MemberIndex member = stall->suspects.front();
      auto found = std::ranges::find(by_device, member, [](const CauseGroup& one) { return one.location.culprit; });
      if (found == by_device.end()) {
        by_device.push_back({.cause = Cause::kSlowDevice, .location = {.culprit = member}});
        found = by_device.end() - 1;
      }
      found->stalls.push_back(stall);
    }
  }
  if (by_device.empty()) {
    return;
  }
  for (CauseGroup& one : by_device) {
    count_cost(context, one);
  }
  rule_of(Cause::kSlowDevice).refine(context, by_device);
  std::set<const Stall*> kept;
  for (const CauseGroup& one : by_device) {
    kept.insert(one.stalls.begin(), one.stalls.end());
  }
  for (CauseGroup& group : groups) {
    std::erase_if(group.stalls, [&](const Stall* stall) { return stall->on_device() && !kept.contains(stall); });
  }
  std::erase_if(groups, [](const CauseGroup& group) { return group.stalls.empty(); });
  for (CauseGroup& group : groups) {
    count_cost(context, group);
  }
}

/// What a rank did in a pause is not known where its threads were not recorded.
void refine(const AnalysisContext& context, std::vector<CauseGroup>& groups) {
  drop_uneven_work(context, groups);
  join_awaited(groups);
  for (CauseGroup& group : groups) {
    group.rare = is_rare(context, group);
  }
}

std::vector<std::string> missing_evidence(const AnalysisContext& context, const Stall& stall, MemberIndex culprit) {
  const EvidencePresence& presence = context.evidence.presence();
  std::vector<std::string> missing;
  if (!presence.wait_spans || (culprit != kNoMember && !context.evidence.has_waits(culprit))) {
    missing.emplace_back("scheduler states of the rank (wait_span)");
  }
  if (!presence.connections) {
    missing.emplace_back("the ranks' connections (connection)");
  }
  if (!presence.tcp_events) {
    missing.emplace_back("retransmissions and congestion states (tcp_events)");
  }
  if (!presence.tcp_samples) {
    missing.emplace_back("connection samples (tcp_sample)");
  }
  for (const UnrecordedKind& kind : unrecorded_kinds(context, stall)) {
    missing.push_back(unrecorded_text(context, kind));
  }
  return missing;
}

/// Data movement between the ranks of a call that all ranks have entered and that does not end.
struct Wire {
  size_t connections = 0;  // number of sampled connections
  uint64_t acked_bytes = 0;
  uint64_t under_way_bytes = 0;
  uint64_t unread_bytes = 0;

  [[nodiscard]] bool silent() const { return connections > 0 && acked_bytes == 0; }
};

Wire wire_of(const AnalysisContext& context, const Stall& stall) {
  Wire wire;
  const Interval steady{stall.window.from_ns + kInFlightArrivesNs, stall.examined().to_ns};
  for (const FlowIndex flow : flows_of(context, stall)) {
    const std::vector<SampleRecord>& samples = context.evidence.samples(flow);
    const auto last = std::partition_point(samples.begin(), samples.end(),
                                           [&](const SampleRecord& s) { return s.time_ns < steady.to_ns; });
    if (last == samples.begin()) {
      continue;
    }
    ++wire.connections;
    const auto steady_at = std::partition_point(samples.begin(), last, [&](const SampleRecord& s) {
      return s.time_ns < steady.from_ns;  // an unchanged sample is not written: the last one is valid
    });
    const SampleRecord& newest = *(last - 1);
    const SampleRecord& oldest = steady_at == samples.begin() ? *steady_at : *(steady_at - 1);
    wire.acked_bytes += newest.bytes_acked - oldest.bytes_acked;
    wire.under_way_bytes += newest.unacked_bytes + newest.notsent_bytes;
    wire.unread_bytes += newest.unread_bytes;
  }
  return wire;
}

/// All ranks are inside a call that has not ended.
bool all_inside(const AnalysisContext& context, const Stall& stall) {
  return stall.hung() && stall.root().kind == HangKind::kTransfer &&
         context.timeline.groups()[stall.group].all_took_part;
}

/// True if a device may have other work to do first: the call has returned on its rank, and its kernel is not known to
/// have begun. Ranks that are still inside the library's function, as in MPI and Gloo, wait for no device.
bool device_may_be_busy(const AnalysisContext& context, const Stall& stall) {
  return std::ranges::any_of(context.timeline.groups()[stall.group].sequences, [&](uint32_t index) {
    const Call* call = context.timeline.sequences()[index].call_at(stall.number);
    return call != nullptr && call->is_open() && call->launched && !call->on_device;
  });
}

/// True if the others may wait for ranks of which nothing is known; or if all are inside, and data move between them or
/// their devices may be busy: in a phase of the program, if the recording was cut in it. Segments that are repeated in
/// vain are a proof.
bool may_end(const AnalysisContext& context, const CauseGroup& group) {
  if (is_undecided(group)) {
    return false;
  }
  const auto in_part = [&](const Stall* stall) { return communicator_in_part(context, *stall) != nullptr; };
  if (std::ranges::all_of(group.stalls, in_part)) {
    return may_still_come(context, group, false);
  }
  const auto proven = [&](const Stall* stall) { return stall->hung() && !all_inside(context, *stall); };
  const auto hung = std::ranges::find_if(group.stalls, [](const Stall* stall) { return stall->hung(); });
  if (hung == group.stalls.end() || std::ranges::any_of(group.stalls, proven)) {
    return false;
  }
  const bool moving = wire_of(context, **hung).acked_bytes > 0;
  return (moving || device_may_be_busy(context, **hung)) && may_still_come(context, group, moving);
}

/// All ranks are inside and no data move between them: the wait is inside the hosts.
bool describe_silence(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const Stall& stall = *group.stalls.front();
  const Wire wire = all_inside(context, stall) ? wire_of(context, stall) : Wire{};
  if (!wire.silent()) {
    return false;
  }
  finding.summary =
      fmt::format("All ranks are inside {}, and no data move between them{}: {}.", call_text(context, stall),
                  group.location.culprit == kNoMember
                      ? ""
                      : fmt::format("; the others wait for {}", context.cluster.describe(group.location.culprit)),
                  cost_text(group));
  finding.evidence.push_back(
      {"tcp_sample",
       static_cast<int64_t>(wire.connections),
       fmt::format(
           "nothing was acknowledged on {} between the ranks; {} are in flight or wait to be sent, {} have arrived and "
           "are unread",
           count_of(static_cast<int64_t>(wire.connections), "connection"),
           format_size(static_cast<int64_t>(wire.under_way_bytes)),
           format_size(static_cast<int64_t>(wire.unread_bytes))),
       {}});
  finding.evidence.push_back(waiting_evidence(context, stall));
  finding.remedy = advice_for(library_of(context.timeline, stall.group)).inside;
  return true;
}

/// Connections to unrecorded processes, which may have ended.
void add_resets(const AnalysisContext& context, Finding& finding) {
  for (const ConnectionError& error : context.evidence.connection_errors()) {
    const Flow& flow = context.flows.flow(error.flow);
    if (error.kind == TcpEventKind::kResetReceived && flow.peer == kNoMember && flow.carries_collectives &&
        error.time_ns >= finding.window.from_ns - kResetBeforeNs && error.time_ns < finding.window.to_ns) {
      finding.evidence.push_back({"tcp_receive_reset",
                                  1,
                                  fmt::format("{} reset its connection to {}: the process there may have ended",
                                              format_endpoint(flow.dst), context.cluster.describe(flow.owner)),
                                  {error.id}});
      return;
    }
  }
}

/// Ranks were not recorded: that comes first. What the hosts of the others did to packets is known without them.
bool describe_partial(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const Group* communicator = nullptr;
  for (auto stall = group.stalls.begin(); stall != group.stalls.end() && communicator == nullptr; ++stall) {
    communicator = communicator_in_part(context, **stall);
  }
  if (communicator == nullptr) {
    return false;
  }
  const MissingRanks& ranks = communicator->unrecorded;
  std::string record;
  if (ranks.empty()) {
    finding.summary = fmt::format(
        "It is not known why collectives were slow, since the calls of some ranks of the communicator are not known: "
        "{}.",
        cost_text(group));
    finding.evidence.push_back({"missing", 0, "missing: the calls of other ranks on the same communicator", {}});
    record = communicator->hash == 0
                 ? "start the agents before the job: then the calls of all ranks are put together by the "
                   "communicator's name"
                 : "record every node of the job; of ranks that have called nothing yet, see where they are "
                   "(stalltrace stacks)";
  } else {
    finding.summary = fmt::format("Without the recording of {} it is not known why collectives were slow: {}.",
                                  ranks.text(), cost_text(group));
    finding.evidence.push_back({"missing", ranks.count(), "missing: the recording of " + ranks.text(), {}});
    record = fmt::format("record the node{} of {} as well, and explain all recordings together",
                         ranks.count() == 1 ? "" : "s", ranks.text());
  }
  DropSide side = own_drops(context, group);
  std::ranges::move(side.evidence, std::back_inserter(finding.evidence));
  finding.remedy = side.first_step.empty() ? record : fmt::format("{}; then {}", side.first_step, record);
  return true;
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  if (describe_undecided(context, group, finding) || describe_silence(context, group, finding)) {
    return;
  }
  const MemberIndex culprit = group.location.culprit;
  const std::string where = culprit == kNoMember
                                ? "Collectives were slow"
                                : fmt::format("The others waited for {}", context.cluster.describe(culprit));
  const std::vector<std::string> missing = missing_evidence(context, *group.stalls.front(), culprit);
  const auto failed = [&](const Member& member) {
    return member.exit_ns && *member.exit_ns <= finding.window.to_ns &&
           (member.exit_signal || member.exit_code.value_or(0) != 0);
  };
  const bool partial = describe_partial(context, group, finding);
  if (partial && group.rare) {
    finding.evidence.push_back(
        {"collective",
         group.instances,
         fmt::format("ranks waited in {} of {}, for up to {}: as healthy jobs do for an evaluation, a checkpoint or a "
                     "compilation, here of a rank that was not recorded",
                     group.instances, count_of(steps_of(context, group, group.stalls.front()->members.front()), "step"),
                     format_duration(group.longest_ns)),
         {}});
  }
  const bool exited = culprit != kNoMember && failed(context.cluster.member(culprit));
  if (!partial) {
    finding.summary = fmt::format("{}, and the recording does not show why: {}.", where, cost_text(group));
  }
  if (missing.empty()) {
    finding.evidence.push_back(
        {"rule",
         0,
         partial ? "the recorded nodes have every kind of evidence, but none covers half of the lost time"
                 : "every kind of evidence is there, but none covers half of the lost time",
         {}});
  } else {
    finding.evidence.push_back(
        {"missing", static_cast<int64_t>(missing.size()), fmt::format("missing: {}", fmt::join(missing, ", ")), {}});
  }
  for (size_t i = 0; i < context.cluster.members().size(); ++i) {
    const Member& member = context.cluster.members()[i];
    if (failed(member) && context.concerns(member)) {
      finding.evidence.push_back(
          {"process_exit",
           1,
           member.exit_signal ? fmt::format("{} was ended by signal {}",
                                            context.cluster.describe(static_cast<MemberIndex>(i)), *member.exit_signal)
                              : fmt::format("{} ended", context.cluster.describe(static_cast<MemberIndex>(i))),
           {}});
    }
  }
  add_resets(context, finding);
  if (partial) {
    return;
  }
  if (exited) {
    finding.remedy = "see why that process ended (its log, dmesg for the OOM killer) before anything else";
  } else if (!missing.empty()) {
    finding.remedy =
        "record every node of the job again, with network and scheduler tracing (stalltrace check lists what a host "
        "lacks)";
  } else {
    finding.remedy = advice_for(library_of(context.timeline, group.stalls.front()->group)).all_recorded;
  }
}

/// A fault leaves stalls whose evidence is too weak for its rule. If they cost little compared to the explained stalls,
/// are mostly of the same time, or point to an explained rank, they are no separate fault.
Subsumption subsumed_by(const SubsumptionQuery& query) {
  if (rule_of(query.by.cause).fallback || (query.group.hung && !query.by.hung)) {  // a hang is never a detail
    return {};
  }
  const bool few =
      static_cast<double>(query.group.lost.total_ns()) < kResidueShare * static_cast<double>(query.explained_ns);
  const MemberIndex culprit = query.group.location.culprit;
  const bool explained =
      share_of(overlap_ns(query.group.lost, query.by.lost), query.group.lost.total_ns()) >= kCoverage;
  if (!few && !explained && (culprit == kNoMember || culprit != query.by.location.culprit)) {
    return {};
  }
  return {.kind = Subsumption::Kind::kMention,
          .text = fmt::format("{}: the evidence does not show why", more_text(query.group))};
}

/// One node's evidence can't blame a rank that it does not see.
void seen_in_part(const std::string& unrecorded, Finding& finding) {
  if (finding.link) {
    return;
  }
  finding.evidence.push_back(
      {"missing", 1, "seen from this node alone, the cause may be elsewhere: " + unrecorded, {}});
  if (std::ranges::find(finding.evidence, "packet_drop", &Evidence::kind) == finding.evidence.end()) {
    finding.remedy = "look at what the other nodes' agents report, or explain all nodes' recordings together";
  }  // else the remedy of the dropped packets comes first
}

}  // namespace

extern const CauseRule kUnknownRule{.cause = Cause::kUnknown,
                                    .gate = kUnknownGate,
                                    .needs = "another cause explains it",
                                    .judge = judge,
                                    .refine = refine,
                                    .may_end = may_end,
                                    .describe = describe,
                                    .subsumed_by = subsumed_by,
                                    .seen_in_part = seen_in_part,
                                    .fallback = true,
                                    .hints = {.memory = true}};

}  // namespace stalltrace::analysis
