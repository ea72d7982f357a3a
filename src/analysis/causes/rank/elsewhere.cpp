// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/rank/elsewhere.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/ranks.h"
#include "analysis/timeline/instance.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

enum class Counted : uint8_t { kElsewhere };

/// Another rank that came last to that call and that this one awaited there for most of the window: the chain begins
/// with that rank, in a stall of its own.
MemberIndex start_of_chain(const AnalysisContext& context, const Elsewhere& call, MemberIndex member, Interval window) {
  Instance instance;
  if (!read_instance(context.timeline, context.timeline.sequences()[call.sequence].group, call.number, instance) ||
      share_of(instance.last_arrival_ns - window.from_ns, window.length()) < kCoverage) {
    return kNoMember;
  }
  const MemberIndex last = context.timeline.sequences()[instance.seen.back().sequence].member;
  return last == member ? kNoMember : last;
}

}  // namespace

Elsewhere elsewhere(const AnalysisContext& context, const Stall& stall, MemberIndex member, Interval window) {
  Elsewhere most;
  for (const uint32_t index : context.timeline.sequences_of(member)) {
    const CallSequence& sequence = context.timeline.sequences()[index];
    if (sequence.group == stall.group) {
      continue;
    }
    const auto after = std::partition_point(sequence.calls.begin(), sequence.calls.end(),
                                            [&](const Call& call) { return call.arrival_ns < window.to_ns; });
    for (auto call = after; call != sequence.calls.begin() && after - call < kCallsElsewhere;) {
      --call;
      const bool known = call->present && call->batch == BatchPart::kNone;
      const int64_t number = sequence.first_number() + (call - sequence.calls.begin());
      const int64_t from_ns = sequence.kernel_start_ns(number).value_or(call->arrival_ns);
      const int64_t inside_ns = known ? intersect({from_ns, call->end_ns()}, window).length() : 0;
      if (inside_ns > most.inside_ns) {
        most = {index, number, inside_ns};
      }
    }
  }
  return most;
}

void follow(const AnalysisContext& context, const Stall& stall, const Elsewhere& call, Hypothesis& hypothesis) {
  const MemberIndex member = hypothesis.location.culprit;
  const MemberIndex first = start_of_chain(context, call, member, stall.examined());
  const CallSequence& sequence = context.timeline.sequences()[call.sequence];
  const std::string_view op = display_name(context.timeline.signature(sequence.call_at(call.number)->signature).op);
  const std::string text = fmt::format("inside {} on communicator {}", op, format_hash(sequence.hash));
  if (first != kNoMember) {
    hypothesis.dismissed = true;
    hypothesis.why += fmt::format("; it waited {}, for {}", text, short_name(context.cluster, first));
  } else if (!context.timeline.groups()[sequence.group].all_took_part) {
    hypothesis.applies = false;
    hypothesis.why += fmt::format("; it was {}, of which the calls of some ranks are not known", text);
  }
  hypothesis.counters.at(Counted::kElsewhere, fmt::format("{} was {}", short_name(context.cluster, member), text)) = {
      1, call.inside_ns, {}};
}

const Group* partly_known_communicator(const AnalysisContext& context, MemberIndex member) {
  for (const uint32_t index : context.timeline.sequences_of(member)) {
    const CallSequence& sequence = context.timeline.sequences()[index];
    const Group& group = context.timeline.groups()[sequence.group];
    if (!sequence.calls.empty() && !group.all_took_part) {
      return &group;
    }
  }
  return nullptr;
}

EvidenceCounter elsewhere_counter(const CauseGroup& group) { return group.counters.sum(Counted::kElsewhere); }

std::string elsewhere_text(const CauseGroup& group) { return group.counters.longest_detail(Counted::kElsewhere); }

}  // namespace stalltrace::analysis
