// SPDX-License-Identifier: Apache-2.0
// Links on which repeated transmissions stay unacknowledged, and whether small segments passed them in that time: that
// distinguishes an MTU black hole from a partition.
#pragma once

#include <vector>

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {

enum class SmallSegments : uint8_t {
  kNone,    // none was sent
  kLost,    // sent, and not acknowledged either
  kPassed,  // before or after a large one, on another connection of the pair, or as acknowledgements of the reverse
            // data
};

struct SilentLink {
  FlowIndex flow = kNoFlow;
  FaultLocation location;  // in the direction of the lost packets: backwards if data arrive and acknowledgements do not
  Interval time{0, 0};
  uint8_t backoff = 0;
  SmallSegments small = SmallSegments::kNone;
  int64_t retransmits = 0;
  int64_t small_retransmits = 0;
  bool passed_behind = false;  // the receiver has segments that were sent after the repeated one
  bool passed_before = false;  // only small segments have ever been acknowledged on this connection
  bool witness = false;        // carries none of its collectives (a keep-alive): shows which end the silent links share
  bool one_end = false;        // its receiver was not recorded, and nothing came back: either direction may be lost
  std::vector<EventId> events;

  /// Full-size segments repeat while small ones pass: on this connection, or on another one if none repeats on this
  /// one.
  [[nodiscard]] bool mtu() const {
    return small == SmallSegments::kPassed && retransmits > small_retransmits &&
           (passed_behind || small_retransmits == 0);
  }
};

/// True if other timeouts around the silence show that the path always loses packets: the silence is then chance.
bool merely_lossy(const AnalysisContext& context, FlowIndex flow, const AckGap& silence);

/// Silent links between ranks of the stall; none if only witnesses are silent.
std::vector<SilentLink> silent_links(const AnalysisContext& context, const Stall& stall);

/// The hypothesis for links of one kind: the longest silence; to blame is the end that all links share.
Hypothesis hypothesis_of(const AnalysisContext& context, const Stall& stall, Cause cause,
                         const std::vector<SilentLink>& links);

/// The unacknowledged retransmissions and a few example events; overlapping stalls count each once.
EvidenceCounter repeated_in_vain(const AnalysisContext& context, const CauseGroup& group);

/// Time without any acknowledgement over all stalls of the group; at most the time of the stalls.
int64_t silent_ns(const CauseGroup& group);

/// True for a group of a link that was seen from one end alone: which direction is lost is not known.
bool is_either_way(const CauseGroup& group);
/// Reports that, as evidence and in the confidence.
void add_direction_not_known(Finding& finding);

/// True for a group of `unknown` with silent links that could be a partition or an MTU black hole.
bool is_undecided(const CauseGroup& group);
/// Describes such a group; false for any other.
bool describe_undecided(const AnalysisContext& context, const CauseGroup& group, Finding& finding);

/// Counters of a hypothesis about silent links.
enum class SilenceCounted : uint8_t {
  kRepeated,         // a few of the unacknowledged retransmissions
  kSilent,           // the longest silence
  kOvertaken,        // links on which small segments passed after large ones
  kOnlySmallBefore,  // links that had carried only small segments before
  kOneEnd,           // links seen from one end alone: SilentLink::one_end
};

}  // namespace stalltrace::analysis
