// SPDX-License-Identifier: Apache-2.0
// A cause is one file with one CauseRule: how it judges a stall, what it needs, when its findings are part of others,
// and its texts. A new cause is that file, a row of registry.cpp and a row of STALLTRACE_CAUSES (model/finding.h).
// Everything here is pure and called by one thread; times are ns on the common clock.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/causes/decision.h"
#include "analysis/thresholds.h"
#include "model/evidence_kind.h"

namespace stalltrace::analysis {

/// Stalls with one cause and one place; they point into the decisions.
struct CauseGroup {
  Cause cause = Cause::kUnknown;
  Place place;
  std::vector<const Stall*> stalls;
  IntervalSet lost;
  int64_t longest_ns = 0;
  int64_t instances = 0;
  bool hung = false;
  bool waiting = false;    // hung, but what the others wait for may still come: CauseRule::may_end
  bool ended_job = false;  // the job ended in one of them, and the cause is known
  int64_t wrong_data = 0;  // instances that ranks ended though they disagreed
  double coverage = 0;     // share of the lost time that the evidence covers, weighted by stall, 0..1
  double share = 0;        // of the time that the group spans, 0..1
  EvidenceCounters counters;
  std::set<FlowIndex> flows;       // the connections that the evidence is of
  std::vector<Evidence> mentions;  // of groups that this one accounts for
  std::string note;                // not empty: no finding but this line below the findings
};

/// What becomes of a group of stalls for which another group may account.
struct Subsumption {
  enum class Kind : uint8_t {
    kNone,       // they are two findings
    kMerge,      // one finding: costs and evidence are added
    kMergeCost,  // one finding: costs are added, the evidence stays the other group's
    kDrop,       // a by-product of the other: not reported
    kMention,    // not a finding but a line of evidence of the other: `text`
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
  bool memory = false;   // waits for memory on the culprit's host
  bool packets = false;  // packets that hosts at both ends did not take
};

struct CauseRule {
  Cause cause;
  Gate gate;
  /// A sentence for `explain --instance`: what was not there where `judge` has nothing to say.
  std::string_view needs;
  /// Adds a hypothesis per place that could be to blame, also when it does not apply.
  void (*judge)(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out);
  /// Null, or: merges, splits, drops or turns into notes the groups of this cause, knowing all of them, before costs
  /// are compared with the gate.
  void (*refine)(const AnalysisContext& context, std::vector<CauseGroup>& groups) = nullptr;
  /// Null, or: whether a hang of this cause may still end by itself: its severity is then `waiting`.
  bool (*may_end)(const AnalysisContext& context, const CauseGroup& group) = nullptr;
  /// Fills summary, link, evidence and remedy; cost and culprit are there already.
  void (*describe)(const AnalysisContext& context, const CauseGroup& group, Finding& finding);
  /// Null, or: whether a group of this cause is part of another. Asked before the gate about each more expensive group
  /// of this cause, where all kinds are allowed; then, of what passed the gate, about groups of other causes, most
  /// expensive first, where only kDrop and kMention are. The first answer other than kNone counts.
  Subsumption (*subsumed_by)(const SubsumptionQuery& query) = nullptr;
  /// Null, or: stalls that no other rule is asked about.
  bool (*only_for)(const Stall& stall) = nullptr;
  /// A job may end of it at once: reported whatever it cost then.
  bool ends_jobs = false;
  /// Asked only where no other rule applies: its findings name no cause.
  bool fallback = false;
  HostHints hints = {};
  /// Kinds of evidence from whose absence the rule concludes something: where a node can't record one, it does not
  /// apply.
  std::vector<EvidenceKind> needs_absence_of = {};
};

/// In order of directness, the fallback last: of two rules that cover a stall equally, the earlier one is chosen.
std::span<const CauseRule> cause_rules();
/// The fallback for a cause without a rule.
const CauseRule& rule_of(Cause cause);

/// part_ns / whole_ns, limited to 0..1; 0 where the whole is nothing.
double share_of(int64_t part_ns, int64_t whole_ns);
/// "37 collectives", "1 collective"
std::string count_of(int64_t n, std::string_view thing);
/// "rank 2", or "pid 4711 on node2" where the rank is unknown.
std::string short_name(const Cluster& cluster, MemberIndex member);
/// "the job lost 5.12 s in 37 collectives", "the job has hung for 20 s", "the job ended after 153 ms of waiting", "the
/// job ended": the cost in a summary.
std::string cost_text(const CauseGroup& group);
/// The job ended in these stalls: they are no hang.
bool ended_job(const CauseGroup& group);
/// "5.12 s more in 37 collectives": the cost in a mention.
std::string more_text(const CauseGroup& group);
/// The evidence of every finding: how long the stalls were, and how long such instances usually take.
Evidence stall_evidence(const AnalysisContext& context, const CauseGroup& group);
/// With a capital first letter.
std::string capitalised(std::string text);
/// "AllReduce of 1 MiB float32 sum"
std::string signature_text(const CallSignature& signature);
/// Both as signature_text, with sizes to the byte where they differ.
std::pair<std::string, std::string> differing_signature_texts(const CallSignature& first, const CallSignature& second);
/// "rank 2 (node2, pid 4711)", or "rank 1, rank 2" for several.
std::string names_of(const AnalysisContext& context, const std::vector<MemberIndex>& members);
/// "AllReduce number 37 on communicator 0x..."
std::string call_text(const AnalysisContext& context, const Stall& stall);
/// The same of one rank's call.
std::string call_text(const AnalysisContext& context, const HangStep& call);
/// "AllReduce number 37", or "AllReduce" where calls were not counted from the start.
std::string short_call_text(const AnalysisContext& context, const HangStep& call);
/// False where ranks of the communicator were not recorded: what those did, and whether they live, is not known.
bool all_ranks_recorded(const AnalysisContext& context, uint32_t group);
/// "rank 1 (...) is inside Send number 3 on communicator 0x..., waiting for rank 2"
std::string step_text(const AnalysisContext& context, const HangStep& step);
inline constexpr size_t kMostSteps = 8;
/// Which ranks are in the stalled call, and which are not.
Evidence waiting_evidence(const AnalysisContext& context, const Stall& stall);
Culprit culprit_of(const Cluster& cluster, MemberIndex member);
/// The examined time of all stalls of a group, as a union: evidence that is read in it counts once.
IntervalSet time_of(const CauseGroup& group);
/// Fills the group's lost time, longest stall and number of instances from its stalls.
void count_cost(const AnalysisContext& context, CauseGroup& group);
/// Adds costs and evidence; place and shares stay those of `into`.
void merge(CauseGroup& into, CauseGroup&& from);

}  // namespace stalltrace::analysis
