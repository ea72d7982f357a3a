// SPDX-License-Identifier: Apache-2.0
// What was decided about one stall, with the numbers of every rule: why, and why not.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analysis/evidence/evidence.h"
#include "analysis/evidence/flows.h"
#include "analysis/stalls/stall.h"
#include "analysis/timeline/timeline.h"
#include "model/finding.h"

namespace stalltrace::analysis {

/// Where: a rank, a directed link between two ranks, or nowhere known. Two stalls with one cause and place are
/// one finding.
struct Place {
  MemberIndex culprit = kNoMember;
  FlowIndex flow = kNoFlow;  // a connection of the link, as a sample of it
  MemberIndex src = kNoMember;
  MemberIndex dst = kNoMember;
  std::string far_end;  // address of a peer that no recording knows

  [[nodiscard]] auto key() const { return std::tie(culprit, src, dst, far_end); }
};

/// Numbers that fold: counts and times add up, samples of events are kept.
struct EvidenceCounter {
  int64_t count = 0;
  int64_t time_ns = 0;
  std::vector<EventId> events;
};
/// By what was counted ("timeouts", "runnable", ...), and which thing ("stress-cpu").
using EvidenceCounters = std::map<std::pair<std::string, std::string>, EvidenceCounter>;

/// One rule's opinion of one stall.
struct Hypothesis {
  Cause cause = Cause::kUnknown;
  Place place;
  double coverage = 0;  // share of the lost time that the evidence covers, 0..1
  bool applies = false;
  bool dismissed = false;  // explains the stall as something ordinary that is no fault
  std::string why;         // the numbers in words, for a reader of a decision
  EvidenceCounters counters;
};

struct Decision {
  Stall stall;  // its window is on the common clock
  std::vector<Hypothesis> hypotheses;
  size_t chosen = 0;  // index into opinions
};

/// All that a rule may look at.
struct AnalysisContext {
  const Cluster& cluster;
  const Timeline& timeline;
  const Flows& flows;
  const EvidenceStore& evidence;
};

}  // namespace stalltrace::analysis
