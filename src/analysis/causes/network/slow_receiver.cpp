// SPDX-License-Identifier: Apache-2.0
// slow_receiver: received data lie unread at the receiver, or its window is closed: its process reads more slowly than
// the network delivers. A rank that can't forward data stops reading as well, and is not to blame.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analysis/causes/cause.h"
#include "analysis/causes/library_advice.h"
#include "analysis/causes/network/links.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/gates.h"
#include "analysis/thresholds/network.h"
#include "base/numbers/median.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

/// How a rank reads from one link, and how it forwards.
struct Reader {
  FlowIndex flow = kNoFlow;  // in the direction of the rank
  double limited = 0;        // share of the stall in which its sender waited for room in the receiver's window
  double unread = 0;         // share of the receiver's samples with unread data
  double backlog = 0;        // unread bytes, mean of all samples
  bool sends_on = true;      // its own sending is not held up; of a rank that was not recorded this is not known

  [[nodiscard]] double share() const { return std::max(limited, unread); }
};

std::vector<Reader> readers_of(const AnalysisContext& context, const Stall& stall) {
  std::vector<Reader> readers;
  std::set<MemberIndex> held_up;
  for (const FlowIndex index : flows_of(context, stall)) {
    const Flow& flow = context.flows.flow(index);
    const FlowDelta delta = context.evidence.delta(index, stall.examined());
    const FlowDelta other =
        flow.reverse == kNoFlow ? FlowDelta{} : context.evidence.delta(flow.reverse, stall.examined());
    if (share_of(delta.busy_ns, delta.span_ns) >= kBusyShare) {
      held_up.insert(flow.owner);
    }
    if (delta.acked_bytes == 0) {
      continue;  // nothing was sent in this direction
    }
    Reader reader{.flow = index, .limited = share_of(delta.receiver_limited_ns, delta.span_ns)};
    reader.unread = other.samples < kUnreadSamples ? 0 : share_of(other.unread, other.samples);
    reader.backlog = static_cast<double>(other.unread_bytes) / static_cast<double>(std::max<int64_t>(other.samples, 1));
    readers.push_back(reader);
  }
  const bool all_recorded = context.timeline.groups()[stall.group].all_took_part;
  for (Reader& reader : readers) {
    const MemberIndex peer = context.flows.flow(reader.flow).peer;
    reader.sends_on = peer == kNoMember ? all_recorded : !held_up.contains(peer);
  }
  return readers;
}

/// The reader could not run: the cause is whatever had its CPU.
bool is_starved(const AnalysisContext& context, const Stall& stall, const Reader& reader) {
  const MemberIndex member = context.flows.flow(reader.flow).peer;
  return member != kNoMember &&
         share_of(context.evidence.share(member, WaitKind::kRunnable, stall.examined()).covered_ns,
                  stall.to_explain_ns()) >= kStarvedReaderShare;
}

double middle_of(const std::vector<Reader>& readers, double Reader::*value) {
  std::vector<double> values;
  for (const Reader& reader : readers) {
    values.push_back(reader.*value);
  }
  return lower_median(std::move(values));
}

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  if (!network_may_be_slow(stall)) {
    return;
  }
  const std::vector<Reader> readers = readers_of(context, stall);
  if (readers.size() < 2) {
    return;
  }
  const double middle = middle_of(readers, &Reader::unread);
  const double middle_backlog = middle_of(readers, &Reader::backlog);
  for (const Reader& reader : readers) {
    const bool piles_up =
        reader.unread >= kUnreadShare && (reader.unread >= kUnreadContrast * middle ||
                                          (readers.size() > 2 && reader.backlog >= kBacklogContrast * middle_backlog));
    if (!reader.sends_on || (reader.limited < kReceiverLimitedShare && !piles_up) ||
        is_starved(context, stall, reader)) {
      continue;
    }
    Hypothesis hypothesis{.cause = Cause::kSlowReceiver, .location = link_of(context.flows, reader.flow)};
    hypothesis.location.culprit = hypothesis.location.dst;
    hypothesis.coverage = reader.share();
    hypothesis.applies = hypothesis.coverage >= kCoverage;
    hypothesis.why = fmt::format("data lay unread in {:.0f} % of the samples, the sender waited for room for {:.0f} %",
                                 100 * reader.unread, 100 * reader.limited);
    out.push_back(std::move(hypothesis));
  }
}

/// The other ranks read in bursts what a slow reader forwards: by chance, samples can make one of them look slow.
Subsumption subsumed_by(const SubsumptionQuery& query) {
  const bool echo = query.by.cause == Cause::kSlowReceiver &&
                    share_of(query.group.lost.total_ns(), query.by.lost.total_ns()) < kResidueShare;
  return {.kind = echo ? Subsumption::Kind::kDrop : Subsumption::Kind::kNone, .text = {}};
}

/// What the group's connection showed during its stalls; overlapping stalls count once.
struct Seen {
  int64_t unread_samples = 0;
  int64_t limited_ns = 0;  // the sender waited for room
};

Seen seen_in(const AnalysisContext& context, const CauseGroup& group) {
  const FlowIndex reverse = context.flows.flow(group.location.flow).reverse;
  const IntervalSet times = time_of(group);
  Seen seen;
  for (const Interval& time : times.intervals()) {
    seen.unread_samples += reverse == kNoFlow ? 0 : context.evidence.delta(reverse, time).unread;
    seen.limited_ns += std::min(context.evidence.delta(group.location.flow, time).receiver_limited_ns, time.length());
  }
  return seen;
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const bool known = group.location.culprit != kNoMember;
  finding.summary = known ? fmt::format("{} does not read what it receives fast enough: {}.",
                                        capitalised(context.cluster.describe(group.location.culprit)), cost_text(group))
                          : fmt::format("The receiver {} does not read fast enough: {}.",
                                        link_text(context, group.location), cost_text(group));
  finding.link = link_endpoints(context, group.location);
  const Seen seen = seen_in(context, group);
  finding.evidence.push_back(
      {"tcp_sample",
       seen.unread_samples,
       fmt::format(
           "data that had arrived lay unread in {}, and the sender waited {} for room in the receiver's window, "
           "while the receiver itself could send",
           count_of(seen.unread_samples, "sample"), format_duration(seen.limited_ns)),
       {}});
  finding.remedy = fmt::format(
      "see what slows the receiving process down: its {}, and socket buffers that are too small for the path "
      "(net.ipv4.tcp_rmem)",
      advice_for(library_of(context.timeline, group.stalls.front()->group)).reading);
}

}  // namespace

extern const CauseRule kSlowReceiverRule{
    .cause = Cause::kSlowReceiver,
    .gate = kSlowReceiverGate,
    .needs = "no rank left data unread, and no sender waited for room in a receiver's window",
    .judge = judge,
    .describe = describe,
    .subsumed_by = subsumed_by,
    .hints = {.memory = true, .packets = true}};

}  // namespace stalltrace::analysis
