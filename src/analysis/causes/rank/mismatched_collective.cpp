// SPDX-License-Identifier: Apache-2.0
// mismatched_collective: under one sequence number ranks entered different operations, sizes, datatypes, reduce-ops or
// roots, and they hang or end with wrong data. The majority is right; without one, what all ranks entered before; else
// no rank is named.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/causes/cause.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/gates.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  if (stall.root().kind != HangKind::kMismatch || !stall.vote()) {
    return;
  }
  Hypothesis hypothesis{.cause = Cause::kMismatchedCollective, .location = {.culprit = stall.root().member}};
  hypothesis.coverage = 1;
  hypothesis.applies = true;
  const auto [usual, odd] = differing_signature_texts(context, *stall.vote());
  hypothesis.why = fmt::format("number {} is {} at most ranks and {} at others", stall.vote()->number, usual, odd);
  out.push_back(std::move(hypothesis));
}

/// The outcome: wrong data, a hang, or both.
std::string outcome_text(const CauseGroup& group) {
  if (group.wrong_data == 0) {
    return cost_text(group);
  }
  const std::string wrong = fmt::format("{} ended with wrong data", count_of(group.wrong_data, "collective"));
  return group.hung ? fmt::format("{}, and {}", wrong, cost_text(group)) : wrong;
}

/// All ranks ended it with wrong data, which matters more than any other delay.
bool ended_wrong(const Stall& stall) { return stall.wrong_data() > 0; }

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const SignatureVote& vote = *group.stalls.front()->vote();
  const auto [usual, odd] = differing_signature_texts(context, vote);
  const std::string where =
      fmt::format("number {} on communicator {}", vote.number, format_hash(context.timeline.groups()[vote.group].hash));
  finding.op = context.timeline.signature(vote.usual).op;
  if (vote.odd_ones.empty()) {
    finding.summary = fmt::format("The ranks do not agree on collective {}: some entered {}, others {}: {}.", where,
                                  usual, odd, outcome_text(group));
  } else {
    finding.summary =
        fmt::format("{} entered {} as collective {} where the others entered {}: {}.",
                    capitalised(names_of(context, vote.odd_ones)), odd, where, usual, outcome_text(group));
  }
  finding.evidence.push_back(
      {"collective",
       static_cast<int64_t>(vote.odd_ones.size()),
       fmt::format("{}: {} at {}, {} at the others", where, odd,
                   vote.odd_ones.empty() ? "some ranks" : names_of(context, vote.odd_ones), usual),
       {}});
  if (vote.by_history) {
    finding.confidence = std::min(finding.confidence, kByHistoryConfidence);
    finding.evidence.push_back(
        {"collective",
         1,
         fmt::format("no signature has a majority; in the collectives before, all ranks entered {} at this position",
                     usual),
         {}});
  }
  const auto stalled = std::find_if(group.stalls.begin(), group.stalls.end(), [&](const Stall* stall) {
    return stall->group == vote.group && stall->number == vote.number;
  });
  if (stalled != group.stalls.end() && (*stalled)->hung()) {
    finding.evidence.push_back(waiting_evidence(context, **stalled));
  }
  if (group.wrong_data > 0) {
    finding.evidence.push_back(
        {"collective",
         group.wrong_data,
         "all ranks ended such collectives: their results, and what was computed from them since, "
         "are wrong",
         {}});
  }
  finding.remedy =
      "make all ranks call the same collectives in the same order with equal counts, datatypes, reduce-ops and roots: "
      "look for sizes that depend on the rank or its data (a last, smaller batch), and for a call that only some make";
}

}  // namespace

extern const CauseRule kMismatchedCollectiveRule{.cause = Cause::kMismatchedCollective,
                                                 .gate = kHangGate,
                                                 .needs = "its ranks did not hang in calls that differ",
                                                 .judge = judge,
                                                 .describe = describe,
                                                 .only_for = ended_wrong,
                                                 .ends_jobs = true};

}  // namespace stalltrace::analysis
