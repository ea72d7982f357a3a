// SPDX-License-Identifier: Apache-2.0
// The decision about one stall, with the numbers of every rule.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analysis/causes/evidence_counters.h"
#include "analysis/evidence/evidence.h"
#include "analysis/evidence/flows.h"
#include "analysis/evidence/raised_exceptions.h"
#include "analysis/stalls/hangs/job_ends.h"
#include "analysis/stalls/stall.h"
#include "analysis/timeline/batches/steps.h"
#include "analysis/timeline/timeline.h"
#include "model/finding.h"

namespace stalltrace::analysis {

/// A rank, a node, a directed link between two ranks, or unknown. Stalls with one cause and location are one finding.
struct FaultLocation {
  MemberIndex culprit = kNoMember;
  std::optional<NodeId> node;  // of links of several ranks of one node: what they share; no single rank is the culprit
  FlowIndex flow = kNoFlow;    // a connection of the link, as an example
  MemberIndex src = kNoMember;
  MemberIndex dst = kNoMember;
  std::string far_end;  // address of a peer that is in no recording

  /// False of a link of which neither end is to blame, and of what is not known.
  [[nodiscard]] bool at_one_end() const { return culprit != kNoMember || node.has_value(); }
  [[nodiscard]] auto key() const { return std::tie(culprit, node, src, dst, far_end); }
};

/// The result of one rule for one stall and location.
struct Hypothesis {
  Cause cause = Cause::kUnknown;
  FaultLocation location;
  double coverage = 0;  // share of the lost time that the evidence covers, 0..1
  bool applies = false;
  bool dismissed = false;  // the stall is ordinary and no fault
  std::string why;         // the numbers as text, for `explain --instance`
  EvidenceCounters counters;
  std::vector<FlowIndex> flows;  // the connections that the evidence comes from, if any
};

struct Decision {
  Stall stall;  // its window is on the common clock
  std::vector<Hypothesis> hypotheses;
  size_t chosen = 0;              // index into hypotheses
  std::optional<size_t> finding;  // index into the report's findings; none: no finding explains this stall
};

/// The input of all rules.
struct AnalysisContext {
  const Cluster& cluster;
  const Timeline& timeline;
  const Flows& flows;
  const EvidenceStore& evidence;
  const JobEnds& ends;
  const Settling& settling;
  const RaisedExceptions& raised;
  std::optional<Interval> judged = std::nullopt;  // only lost time inside it counts; nullopt: all of it
  AttemptIndex attempt = kNoAttempt;              // the attempt that is judged

  /// False if the process belongs to another job attempt.
  [[nodiscard]] bool concerns(const Member& member) const {
    return attempt == kNoAttempt || member.attempt == kNoAttempt || member.attempt == attempt;
  }
};

}  // namespace stalltrace::analysis
