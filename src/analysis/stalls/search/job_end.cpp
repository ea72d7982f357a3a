// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/search/job_end.h"

#include <algorithm>

namespace stalltrace::analysis {
namespace {

/// The sequence of the rank's last call with other ranks.
const CallSequence* newest_sequence(const SearchState& search, MemberIndex member) {
  const CallSequence* newest = nullptr;
  for (const uint32_t index : search.timeline.sequences_of(member)) {
    const CallSequence& sequence = search.timeline.sequences()[index];
    const bool shared = search.timeline.groups()[sequence.group].sequences.size() > 1;
    if (shared && !sequence.calls.empty() &&
        (newest == nullptr || sequence.last_arrival_ns > newest->last_arrival_ns)) {
      newest = &sequence;
    }
  }
  return newest;
}

/// True if another phase has found what ended the job.
bool is_found(const SearchState& search, const JobEnd& end) {
  return std::ranges::any_of(search.result.stalls, [&](const Stall& stall) {
    return stall.hung() &&
           std::ranges::any_of(stall.members, [&](MemberIndex one) { return search.ends.of(one) == &end; });
  });
}

}  // namespace

void judge_job_ends(SearchState& search) {
  for (const JobEnd& end : search.ends.all()) {
    const CallSequence* sequence = newest_sequence(search, end.first());
    if (end.kind == JobEnd::Kind::kAfterwards || sequence == nullptr || is_found(search, end)) {
      continue;
    }
    const int64_t exit_ns = std::max(end.left_ns, *search.cluster.member(end.first()).exit_ns);
    Stall stall{.group = sequence->group,
                .number = sequence->next_number(),
                .signature = sequence->calls.back().signature,
                .verdict = {.part = StallPart::kAbsent, .reason = VerdictReason::kEndedJob}};
    stall.verdict.window = stall.window = {end.left_ns, exit_ns};
    stall.suspects = end.leavers;
    stall.members = end.leavers;
    stall.kind = MissingRank{
        .hang = {{HangKind::kDead, end.first(), {}}, true}, .no_rank_waited = true, .calling_tid = sequence->tid};
    keep(search, std::move(stall));
  }
}

}  // namespace stalltrace::analysis
