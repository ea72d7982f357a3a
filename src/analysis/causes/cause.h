// SPDX-License-Identifier: Apache-2.0
// A cause is one file with one CauseRule: how the rule judges a stall, what evidence it needs, when its findings belong
// to other findings, and its texts. A new cause is that file, a row of registry.cpp and a row of STALLTRACE_CAUSES
// (model/finding.h). Everything here is pure and called by one thread; times are ns on the common clock.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/causes/decision.h"
#include "analysis/thresholds/gates.h"
#include "model/evidence_kind.h"

namespace stalltrace::analysis {

/// Stalls with one cause and one location; pointers into the decisions.
struct CauseGroup {
  Cause cause = Cause::kUnknown;
  FaultLocation location;
  std::vector<const Stall*> stalls;
  IntervalSet lost;
  int64_t longest_ns = 0;
  int64_t instances = 0;
  bool hung = false;
  bool waiting = false;    // the group hangs, but the awaited call may still come: CauseRule::may_end
  bool rare = false;       // a few long pauses, as healthy jobs make: its severity is `waiting`
  bool ended_job = false;  // the job ended in one of the stalls, and the cause is known
  int64_t wrong_data = 0;  // instances that completed although their ranks disagreed
  double coverage = 0;     // share of the lost time that the evidence covers, weighted by stall, 0..1
  double share = 0;        // share of the time that the group spans, 0..1
  EvidenceCounters counters;
  std::set<FlowIndex> flows;       // connections that the evidence comes from
  std::vector<Evidence> mentions;  // from groups that this one accounts for
  std::string note;                // not empty: this line is printed below the findings, and there is no finding
};

/// The result when another group may account for a group of stalls.
struct Subsumption {
  enum class Kind : uint8_t {
    kNone,       // they are two findings
    kMerge,      // one finding: costs and evidence are added
    kMergeCost,  // one finding: costs are added, the evidence is the other group's
    kDrop,       // a by-product of the other group: not reported
    kMention,    // no finding, but a line of evidence in the other one: `text`
  };
  Kind kind = Kind::kNone;
  std::string text;
};

struct SubsumptionQuery {
  const AnalysisContext& context;
  const CauseGroup& group;
  CauseGroup& by;            // may account for `group`; a rule that merges may set its culprit
  int64_t explained_ns = 0;  // cost of all groups with a known cause; 0 between groups of one cause
};

/// Which counters of hosts become lines of evidence (host_counter_hints.h).
struct HostHints {
  bool memory = false;   // memory waits on the culprit's host
  bool packets = false;  // packets that the hosts at both ends did not take
};

struct CauseRule {
  Cause cause;
  Gate gate;
  /// A sentence for `explain --instance`: the evidence that was missing if `judge` adds nothing.
  std::string_view needs;
  /// Adds a hypothesis for each possible location, including hypotheses that do not apply.
  void (*judge)(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out);
  /// Optional. Merges, splits, drops or turns into notes the groups of this cause. Sees all of them, before costs are
  /// compared with the gate.
  void (*refine)(const AnalysisContext& context, std::vector<CauseGroup>& groups) = nullptr;
  /// Optional. True if a hang of this cause may still end by itself: its severity is then `waiting`.
  bool (*may_end)(const AnalysisContext& context, const CauseGroup& group) = nullptr;
  /// Fills summary, link, evidence and remedy; cost and culprit are already set.
  void (*describe)(const AnalysisContext& context, const CauseGroup& group, Finding& finding);
  /// Optional. Decides whether a group of this cause is part of another group. Before the gate it is called with each
  /// more expensive group of this cause, and may return any kind. After the gate it is called with groups of other
  /// causes, most expensive first, and may return only kDrop and kMention. The first answer other than kNone counts.
  Subsumption (*subsumed_by)(const SubsumptionQuery& query) = nullptr;
  /// Optional. Stalls for which only this rule is used, and the fallback if it does not apply.
  bool (*only_for)(const Stall& stall) = nullptr;
  /// The cause may end a job at once: it is then reported at any cost.
  bool ends_jobs = false;
  /// Where the culprit was in its Python program is part of the summary, not only of the evidence.
  bool python_location_in_summary = false;
  /// Optional. Changes a finding in whose time ranks were not recorded, as in `trace --live` on one node; `unrecorded`
  /// is the report's note on them.
  void (*seen_in_part)(const std::string& unrecorded, Finding& finding) = nullptr;
  /// Used only if no other rule applies: its findings name no cause.
  bool fallback = false;
  HostHints hints = {};
  /// Evidence kinds whose absence the rule relies on: if a node can't record one of them, the rule does not apply.
  std::vector<EvidenceKind> needs_absence_of = {};
};

/// In order of directness, the fallback last: if two rules cover a stall equally, the earlier one is chosen.
std::span<const CauseRule> cause_rules();
/// The fallback for a cause without a rule.
const CauseRule& rule_of(Cause cause);

/// part_ns / whole_ns, limited to 0..1; 0 if whole_ns is 0.
double share_of(int64_t part_ns, int64_t whole_ns);
/// "rank 2", or "pid 4711 on node2" where the rank is unknown.
std::string short_name(const Cluster& cluster, MemberIndex member);
/// The cost in a summary: "the job lost 5.12 s in 37 collectives", "the job has hung for 20 s", "the job ended after
/// 153 ms of waiting", "the job ended"; by another run: "the job lost 5.12 s in 37 collectives against the run given by
/// --like".
std::string cost_text(const CauseGroup& group);
/// True if the job ended in these stalls, so that they are no hang.
bool ended_job(const CauseGroup& group);
/// How long the stalls like the group's longest one took, and how long they take in the run that was right; none where
/// that one was not judged by it.
std::optional<TimesByReference> times_by_reference(const CauseGroup& group);
/// The cost in a mention: "5.12 s more in 37 collectives".
std::string more_text(const CauseGroup& group);
/// The evidence that every finding has: how long the stalls were, and how long such instances usually take.
Evidence stall_evidence(const AnalysisContext& context, const CauseGroup& group);
/// "AllReduce of 1 MiB float32 sum": what most entered, and the odd call. Sizes are printed to the byte if they differ.
std::pair<std::string, std::string> differing_signature_texts(const AnalysisContext& context,
                                                              const SignatureVote& vote);
/// "rank 2 (node2, pid 4711)", or "rank 1, rank 2" for several.
std::string names_of(const AnalysisContext& context, const std::vector<MemberIndex>& members);
/// "AllReduce number 37 on communicator 0x..."
std::string call_text(const AnalysisContext& context, const Stall& stall);
/// The same for one rank's call.
std::string call_text(const AnalysisContext& context, const HangStep& call);
/// "AllReduce number 37", or "AllReduce" if calls were not counted from the start.
std::string short_call_text(const AnalysisContext& context, const HangStep& call);
/// "rank 1 (...) is inside Send number 3 on communicator 0x..., waiting for rank 2"
std::string step_text(const AnalysisContext& context, const HangStep& step);
inline constexpr size_t kMostSteps = 8;
/// Which ranks are in the stalled call, and which are not.
Evidence waiting_evidence(const AnalysisContext& context, const Stall& stall);
Culprit culprit_of(const Cluster& cluster, MemberIndex member);
/// The union of the examined times of all stalls of a group, so that overlapping evidence counts once.
IntervalSet time_of(const CauseGroup& group);
/// Sets the group's lost time, longest stall and number of instances from its stalls.
void count_cost(const AnalysisContext& context, CauseGroup& group);
/// Adds costs and evidence; `into` keeps its location and shares.
void merge(CauseGroup& into, CauseGroup&& from);

}  // namespace stalltrace::analysis
