// SPDX-License-Identifier: Apache-2.0
// Links on which nothing was acknowledged though the sender sent again and again, and whether small segments passed
// them in that time: that distinguishes an MTU black hole from a partition.
#pragma once

#include <vector>

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {

enum class SmallSegments : uint8_t {
  kNone,    // none was sent
  kLost,    // sent, not acknowledged either
  kPassed,  // before or behind a large one, on another connection of the two, or as acknowledgements of the other way
};

struct SilentLink {
  FlowIndex flow = kNoFlow;
  Place place;  // as the packets go that do not arrive: backwards where data arrive and acknowledgements do not
  Interval time{0, 0};
  uint8_t backoff = 0;
  SmallSegments small = SmallSegments::kNone;
  int64_t retransmits = 0;
  int64_t small_retransmits = 0;
  bool passed_behind = false;  // the receiver has what was sent behind the segment that repeats
  bool passed_before = false;  // small segments alone have ever been acknowledged on this connection
  bool witness = false;        // carries no collectives itself, a keep-alive: shows which end the silent links share
  std::vector<EventId> events;

  /// Full-size segments repeat, and small ones pass: on this connection, or on another while none repeats on this one.
  [[nodiscard]] bool mtu() const {
    return small == SmallSegments::kPassed && retransmits > small_retransmits &&
           (passed_behind || small_retransmits == 0);
  }
};

/// Timeouts around the silence show that the path loses packets all the time, and the silence is bad luck.
bool merely_lossy(const AnalysisContext& context, FlowIndex flow, const AckGap& silence);

/// Between ranks of the stall; none when only witnesses are silent.
std::vector<SilentLink> silent_links(const AnalysisContext& context, const Stall& stall);

/// The hypothesis over the links of one kind: the longest silence, and the end that all have in common as the culprit.
Hypothesis hypothesis_of(const Stall& stall, Cause cause, const std::vector<SilentLink>& links);

/// The retransmissions in vain, each once however many stalls overlap, and a few of their events.
EvidenceCounter repeated_in_vain(const AnalysisContext& context, const CauseGroup& group);

/// How long nothing was acknowledged, over all stalls of the group: at most their time.
int64_t silent_ns(const CauseGroup& group);

/// Describes a group of `unknown` whose links are silent while nothing distinguishes a partition from an MTU black
/// hole; false for any other group.
bool describe_undecided(const AnalysisContext& context, const CauseGroup& group, Finding& finding);

/// What a hypothesis about silent links counts.
enum class SilenceCounted : uint8_t {
  kRepeated,         // a few of the retransmissions in vain
  kSilent,           // the longest silence
  kOvertaken,        // links on which small segments passed behind large ones
  kOnlySmallBefore,  // links that carried small segments alone before
};

}  // namespace stalltrace::analysis
