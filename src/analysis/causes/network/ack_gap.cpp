// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/network/ack_gap.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "analysis/causes/network/common_location.h"
#include "analysis/causes/network/drops.h"
#include "analysis/causes/network/links.h"
#include "analysis/thresholds/network.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr uint64_t kFin = 1;  // the end of a connection counts as a byte

/// Data arrived at the other end before the end of `proven`, by that end's own count, but were not acknowledged: the
/// acknowledgements are lost. An unchanged sample is not written, so the arrival may precede the first retransmission,
/// and the sender's first sample of the silence: both ends are sampled a few times a second.
bool data_arrives(const AnalysisContext& context, FlowIndex index, const AckGap& silence, Interval proven) {
  const FlowIndex reverse = context.flows.flow(index).reverse;
  if (reverse == kNoFlow || context.evidence.samples(reverse).empty()) {
    return false;
  }
  const std::vector<SampleRecord>& samples = context.evidence.samples(reverse);
  return std::any_of(samples.begin(), samples.end(), [&](const SampleRecord& sample) {
    return sample.time_ns < proven.to_ns && sample.bytes_received > silence.acked_bytes + kArrivedBytes;
  });
}

bool silent_small(const AnalysisContext& context, FlowIndex index, Interval window) {
  const std::vector<SampleRecord>& samples = context.evidence.samples(index);
  return context.evidence.silence(index, window).backoff >= kSilentBackoff &&
         std::any_of(samples.begin(), samples.end(), [&](const SampleRecord& sample) {
           return sample.time_ns >= window.from_ns && sample.time_ns < window.to_ns && sample.unacked_bytes > 0 &&
                  sample.unacked_bytes < kSmallSegmentBytes;
         });
}

/// The receiver has small segments that were sent after the repeated one. When the timer has doubled, the sender counts
/// everything as lost except what the receiver has reported out of order (net/ipv4/tcp_input.c, tcp_timeout_mark_lost).
/// Full-size segments among those would contradict a black hole: the data in flight must be fewer bytes than full
/// segments would have, by as much as the reported ones are small.
bool overtaken(const AnalysisContext& context, FlowIndex index, const AckGap& silence) {
  const std::vector<SampleRecord>& samples = context.evidence.samples(index);
  return std::any_of(samples.begin(), samples.end(), [&](const SampleRecord& sample) {
    const uint64_t reported = sample.packets_out > sample.lost_out ? sample.packets_out - sample.lost_out : 0;
    const uint64_t full = uint64_t{sample.packets_out} * sample.mss;
    return sample.time_ns >= silence.time.from_ns && sample.time_ns <= silence.last_seen_ns &&
           sample.backoff >= kSilentBackoff && reported > 0 && sample.mss > kSmallSegmentBytes &&
           full >= sample.unacked_bytes + reported * (sample.mss - kSmallSegmentBytes);
  });
}

/// Small segments of the connection, such as those of a handshake, have been acknowledged, but never a large one: since
/// then it repeats its first large segment.
bool never_carried_large(const AnalysisContext& context, FlowIndex index, const AckGap& silence) {
  const std::vector<SampleRecord>& samples = context.evidence.samples(index);
  const auto last = std::find_if(samples.begin(), samples.end(), [&](const SampleRecord& sample) {
    return sample.time_ns >= silence.time.from_ns && sample.mss > 0;
  });
  return last != samples.end() && silence.acked_bytes > kFin && silence.acked_bytes < last->mss;
}

/// The result for small segments from the flow's owner to its peer on their other connections: segments that the owner
/// sent, and its acknowledgements of the peer's data.
SmallSegments small_segments(const AnalysisContext& context, FlowIndex index, Interval window) {
  const Flow& flow = context.flows.flow(index);
  SmallSegments seen = SmallSegments::kNone;
  if (flow.peer == kNoMember) {
    return seen;
  }
  for (const FlowIndex i : context.flows.of(std::array{flow.owner, flow.peer})) {
    const Flow& other = context.flows.flow(i);
    const bool forwards = other.owner == flow.owner && other.peer == flow.peer;
    const bool backwards = other.owner == flow.peer && other.peer == flow.owner;
    if (i == index || i == flow.reverse || (!forwards && !backwards)) {
      continue;
    }
    const std::vector<SampleRecord>& samples = context.evidence.samples(i);
    const auto inside = [&](const SampleRecord& sample) {
      return sample.time_ns >= window.from_ns && sample.time_ns < window.to_ns;
    };
    const auto first = std::find_if(samples.begin(), samples.end(), inside);
    const auto last = std::find_if(samples.rbegin(), samples.rend(), inside);
    if (first != samples.end() && last->bytes_acked > first->bytes_acked + kFin) {
      return SmallSegments::kPassed;
    }
    if (forwards && silent_small(context, i, window)) {
      seen = SmallSegments::kLost;
    }
  }
  return seen;
}

/// The path was certainly bad between two failed retransmissions; after the last one it may have healed. A
/// retransmission has failed if a sample one timeout later still shows the silence.
Interval proven_bad(const AnalysisContext& context, FlowIndex index, const AckGap& silence) {
  Interval proven{0, 0};
  for (const Retransmit& repeat : context.evidence.retransmits(index, silence.time)) {
    if (repeat.time_ns + kMinimumRtoNs <= silence.last_seen_ns) {
      proven = {proven.from_ns == 0 ? repeat.time_ns : proven.from_ns, repeat.time_ns};
    }
  }
  return proven;
}

/// Something came back in the silence, so that the other direction carries. `false` also if no sample shows it.
bool receives(const AnalysisContext& context, FlowIndex index, const AckGap& silence) {
  uint64_t least = UINT64_MAX;
  uint64_t most = 0;
  for (const SampleRecord& sample : context.evidence.samples(index)) {
    if (sample.time_ns >= silence.time.from_ns && sample.time_ns <= silence.last_seen_ns) {
      least = std::min(least, sample.bytes_received);
      most = std::max(most, sample.bytes_received);
    }
  }
  return most > least;
}

/// Extends the silence until TCP has repaired it: until then the doubled timer sets the pace.
Interval until_repaired(const AnalysisContext& context, FlowIndex index, Interval silence) {
  for (const Interval& recovery : context.evidence.loss_intervals(index).intervals()) {
    if (recovery.from_ns < silence.to_ns && recovery.to_ns > silence.to_ns) {
      silence.to_ns = recovery.to_ns;
    }
  }
  return silence;
}

}  // namespace

bool merely_lossy(const AnalysisContext& context, FlowIndex flow, const AckGap& silence) {
  const Interval before{silence.time.from_ns - kLossyAroundNs, silence.time.from_ns};
  const Interval after{silence.time.to_ns, silence.time.to_ns + kLossyAroundNs};
  return context.evidence.loss(flow, before).timeouts + context.evidence.loss(flow, after).timeouts >= kLossyTimeouts;
}

std::vector<SilentLink> silent_links(const AnalysisContext& context, const Stall& stall) {
  std::vector<SilentLink> links;
  const Participants ranks(stall);
  for (const FlowIndex index : context.flows.of(stall.members)) {
    const Flow& flow = context.flows.flow(index);
    const bool witness = !flow.carries_collectives || !may_carry(context, stall, flow);
    if (flow.peer == kNoMember ? witness : !ranks.contains(flow.peer)) {
      continue;
    }
    const AckGap silence = context.evidence.silence(index, stall.examined());
    if (silence.backoff < kSilentBackoff || merely_lossy(context, index, silence)) {
      continue;
    }
    const Interval proven = proven_bad(context, index, silence);
    const bool arrives = data_arrives(context, index, silence, proven);
    SilentLink link{.flow = index,
                    .location = link_of(context.flows, index, arrives),
                    .time = until_repaired(context, index, silence.time),
                    .backoff = silence.backoff};
    link.witness = witness;
    link.one_end = flow.peer == kNoMember && !receives(context, index, silence);
    for (const Retransmit& segment : context.evidence.retransmits(index, silence.time)) {
      ++link.retransmits;
      link.small_retransmits += segment.len > 0 && segment.len < kSmallSegmentBytes ? 1 : 0;
      link.events.push_back(segment.id);
    }
    link.passed_behind = !arrives && overtaken(context, index, silence);
    link.small = arrives              ? SmallSegments::kLost
                 : link.passed_behind ? SmallSegments::kPassed
                                      : small_segments(context, index, proven);
    if (link.small == SmallSegments::kNone && link.small_retransmits > 0) {
      link.small = SmallSegments::kLost;
    }
    link.passed_before = link.small == SmallSegments::kNone && never_carried_large(context, index, silence);
    links.push_back(std::move(link));
  }
  if (std::all_of(links.begin(), links.end(), [](const SilentLink& link) { return link.witness; })) {
    links.clear();
  }
  const bool any_lost = std::any_of(links.begin(), links.end(),
                                    [](const SilentLink& link) { return link.small == SmallSegments::kLost; });
  for (SilentLink& link : links) {
    link.passed_before = link.passed_before && !any_lost;
    link.small = link.passed_before ? SmallSegments::kPassed : link.small;
  }
  return links;
}

Hypothesis hypothesis_of(const AnalysisContext& context, const Stall& stall, Cause cause,
                         const std::vector<SilentLink>& links) {
  Hypothesis hypothesis{.cause = cause};
  std::vector<FaultLocation> locations;
  int64_t longest_ns = -1;
  for (const SilentLink& link : links) {
    locations.push_back(link.location);
    if (link.witness) {
      continue;
    }
    const int64_t covered_ns = intersect(link.time, stall.examined()).length();
    if (covered_ns > longest_ns) {
      longest_ns = covered_ns;
      hypothesis.location = link.location;
    }
    hypothesis.flows.push_back(link.flow);
    EvidenceCounter& repeated = hypothesis.counters.at(SilenceCounted::kRepeated);
    repeated.events.insert(repeated.events.end(), link.events.begin(), link.events.end());
    hypothesis.counters.at(SilenceCounted::kOvertaken).count += link.passed_behind ? 1 : 0;
    hypothesis.counters.at(SilenceCounted::kOnlySmallBefore).count += link.passed_before ? 1 : 0;
    hypothesis.counters.at(SilenceCounted::kOneEnd).count += link.one_end ? 1 : 0;
  }
  hypothesis.counters.at(SilenceCounted::kSilent) = {1, longest_ns, {}};
  blame_common_end(context, locations, hypothesis.location);
  hypothesis.coverage = share_of(longest_ns, stall.to_explain_ns());
  hypothesis.why = fmt::format("nothing was acknowledged on {} for up to {} of {}",
                               count_of(static_cast<int64_t>(links.size()), "link"), format_duration(longest_ns),
                               format_duration(stall.to_explain_ns()));
  return hypothesis;
}

EvidenceCounter repeated_in_vain(const AnalysisContext& context, const CauseGroup& group) {
  EvidenceCounter repeated = group.counters.sum(SilenceCounted::kRepeated);
  repeated.count = loss_totals(context, group).retransmits;
  return repeated;
}

int64_t silent_ns(const CauseGroup& group) {
  return std::min(group.counters.sum(SilenceCounted::kSilent).time_ns, time_of(group).total_ns());
}

bool is_either_way(const CauseGroup& group) {
  return !group.location.at_one_end() && group.counters.sum(SilenceCounted::kOneEnd).count > 0;
}

void add_direction_not_known(Finding& finding) {
  finding.confidence = std::min(finding.confidence, kOneEndConfidence);
  finding.evidence.push_back({std::string(kDirectionNotKnown),
                              1,
                              "only one end of the link was recorded, and nothing came back: the packets of one "
                              "direction or of both are lost, or the other end's host is gone",
                              {}});
}

bool is_undecided(const CauseGroup& group) { return group.counters.sum(SilenceCounted::kSilent).count > 0; }

bool describe_undecided(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  if (!is_undecided(group)) {
    return false;
  }
  const EvidenceCounter repeated = repeated_in_vain(context, group);
  finding.summary =
      fmt::format("Large packets do not get through {}, and no small ones were sent there: {}.",
                  link_text(context, group.location, is_either_way(group) ? LinkText::kEitherWay : LinkText::kOneWay),
                  cost_text(group));
  finding.link = link_endpoints(context, group.location);
  finding.evidence.push_back(
      {"tcp_retransmit_skb", repeated.count,
       fmt::format("{}, none of a small segment; nothing was acknowledged for {}",
                   count_of(repeated.count, "retransmission"), format_duration(silent_ns(group))),
       repeated.events});
  finding.evidence.push_back(
      {"missing",
       1,
       "no small segment was sent there in that time: a partition and an MTU black hole look the same",
       {}});
  if (is_either_way(group)) {
    add_direction_not_known(finding);
  }
  finding.remedy = fmt::format(
      "ping from {0} to {1} with small packets and with full ones (ping -M do -s 100, -s 1472): if only small ones "
      "arrive, compare the MTU of interfaces and switch ports; if none does, look at routes, cables, firewalls",
      finding.link->src->address, finding.link->dst->address);
  return true;
}

}  // namespace stalltrace::analysis
