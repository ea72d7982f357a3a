// SPDX-License-Identifier: Apache-2.0
// What was decided about one stall, with the numbers of every rule: why, and why not.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analysis/causes/evidence_counters.h"
#include "analysis/evidence/evidence.h"
#include "analysis/evidence/flows.h"
#include "analysis/stalls/hangs/job_ends.h"
#include "analysis/stalls/stall.h"
#include "analysis/timeline/timeline.h"
#include "model/finding.h"

namespace stalltrace::analysis {

/// Where: a rank, a directed link between two ranks, or unknown. Stalls with one cause and place are one finding.
struct Place {
  MemberIndex culprit = kNoMember;
  FlowIndex flow = kNoFlow;  // a connection of the link, as a sample of it
  MemberIndex src = kNoMember;
  MemberIndex dst = kNoMember;
  std::string far_end;  // address of a peer that no recording knows

  [[nodiscard]] auto key() const { return std::tie(culprit, src, dst, far_end); }
};

/// What one rule computes for one stall and place.
struct Hypothesis {
  Cause cause = Cause::kUnknown;
  Place place;
  double coverage = 0;  // share of the lost time that the evidence covers, 0..1
  bool applies = false;
  bool dismissed = false;  // explains the stall as something ordinary that is no fault
  std::string why;         // the numbers as text, for `explain --instance`
  EvidenceCounters counters;
  std::vector<FlowIndex> flows;  // the connections that the evidence is of, where it is theirs
};

struct Decision {
  Stall stall;  // its window is on the common clock
  std::vector<Hypothesis> hypotheses;
  size_t chosen = 0;  // index into hypotheses
};

/// All that a rule may read.
struct AnalysisContext {
  const Cluster& cluster;
  const Timeline& timeline;
  const Flows& flows;
  const EvidenceStore& evidence;
  const JobEnds& ends;
  std::optional<Interval> judged = std::nullopt;  // only lost time in it counts; none: all
  AttemptIndex attempt = kNoAttempt;              // of what is judged

  /// False for a process of another job attempt.
  [[nodiscard]] bool concerns(const Member& member) const {
    return attempt == kNoAttempt || member.attempt == kNoAttempt || member.attempt == attempt;
  }
};

}  // namespace stalltrace::analysis
