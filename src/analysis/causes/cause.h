// SPDX-License-Identifier: Apache-2.0
// A cause is one file: a rule that judges a stall, and words that tell a folded finding. A new cause is a file
// and a row in causes.cpp.
#pragma once

#include <span>
#include <vector>

#include "analysis/causes/decision.h"
#include "analysis/thresholds.h"
#include "model/evidence_kind.h"

namespace stalltrace::analysis {

/// Stalls with one cause and one place.
struct CauseGroup {
  Cause cause = Cause::kUnknown;
  Place place;
  std::vector<const Stall*> stalls;
  IntervalSet lost;
  int64_t longest_ns = 0;
  int64_t instances = 0;
  bool hung = false;
  bool ended_job = false;  // the job ended in one of them
  int64_t wrong_data = 0;  // so many of them were ended by ranks that disagreed
  double coverage = 0;     // of the lost time, weighted
  double share = 0;        // of the time it spans
  EvidenceCounters counters;
};

struct CauseRule {
  Cause cause;
  Gate gate;
  /// Adds an opinion per place that could be to blame, also when it does not apply.
  void (*judge)(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out);
  /// Null, or: merges or drops groups of this cause, knowing all of them.
  void (*refine)(const AnalysisContext& context, std::vector<CauseGroup>& groups);
  /// Fills summary, evidence and remedy; cost and place are there already.
  void (*tell)(const AnalysisContext& context, const CauseGroup& group, Finding& finding);
  /// A job may end of it at once: it is told whatever it cost then.
  bool ends_jobs = false;
  /// Kinds of evidence from whose absence the rule concludes something: where a node can't record one, it does not
  /// apply.
  std::vector<EvidenceKind> needs_absence_of = {};
};

/// In order of directness: of two rules that cover a stall equally, the earlier one is said.
std::span<const CauseRule> cause_rules();
const CauseRule& rule_of(Cause cause);

extern const CauseRule kProcessStoppedRule;
extern const CauseRule kConnectionResetRule;
extern const CauseRule kDeadRankRule;
extern const CauseRule kMismatchedCollectiveRule;
extern const CauseRule kMissingCollectiveRule;
extern const CauseRule kCpuContentionRule;
extern const CauseRule kMtuBlackholeRule;
extern const CauseRule kPartitionRule;
extern const CauseRule kFabricErrorsRule;
extern const CauseRule kHostDropRule;
extern const CauseRule kPacketLossRule;
extern const CauseRule kSlowReceiverRule;
extern const CauseRule kSlowLinkRule;
extern const CauseRule kDiskIoRule;
extern const CauseRule kLateRankRule;
extern const CauseRule kUnknownRule;

/// Of `part_ns`, the share of `whole_ns`, 0..1.
double share_of(int64_t part_ns, int64_t whole_ns);
/// "37 collectives", "1 collective"
std::string count_of(int64_t n, std::string_view thing);
/// "rank 2", or "pid 4711 on node2" where the rank is unknown.
std::string short_name(const Cluster& cluster, MemberIndex member);
EvidenceCounter tally_of(const EvidenceCounters& counters, const std::string& what);
/// The detail ("stress-cpu") with the most time under `what`.
std::string dearest_detail(const EvidenceCounters& counters, const std::string& what);
/// "the job lost 5.12 s in 37 collectives (31 % of the time)": the common middle of a summary.
std::string cost_text(const CauseGroup& group);
/// The Evidence that every finding carries: how long the stalls were against their like.
Evidence stall_evidence(const AnalysisContext& context, const CauseGroup& group);
/// With a capital first letter.
std::string capitalised(std::string text);
/// "AllReduce of 1 MiB float32 sum"
std::string signature_text(const CallSignature& signature);
/// "rank 2 (node2, pid 4711)", or "rank 1, rank 2" for several.
std::string names_of(const AnalysisContext& context, const std::vector<MemberIndex>& members);
/// "AllReduce number 37 on communicator 0x..."
std::string call_text(const AnalysisContext& context, const Stall& stall);
/// False where the recordings lack ranks of the communicator: what those did, and whether they live, is not known.
bool all_ranks_recorded(const AnalysisContext& context, uint32_t group);
/// "rank 1 (...) is inside Send number 3 on communicator 0x..., waiting for rank 2"
std::string step_text(const AnalysisContext& context, const HangStep& step);
inline constexpr size_t kStepsTold = 8;
/// Who is in the stalled call, and who is not.
Evidence waiting_evidence(const AnalysisContext& context, const Stall& stall);
Culprit culprit_of(const Cluster& cluster, MemberIndex member);
void merge(EvidenceCounters& into, const EvidenceCounters& from);
void merge(CauseGroup& into, CauseGroup&& from);

}  // namespace stalltrace::analysis
