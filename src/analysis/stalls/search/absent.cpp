// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/search/absent.h"

#include <algorithm>
#include <limits>

#include "analysis/thresholds/hangs.h"
#include "analysis/thresholds/stalls.h"

namespace stalltrace::analysis {
namespace {

/// Where the absent ranks are. If more ranks are outside of all calls than inside, the ones inside are odd.
MissingRank missing_rank(const SearchState& search, const Instance& instance, Interval window) {
  OpenCallGraph::Absence absence = search.graph.absence_of(instance, window);
  MissingRank missing;
  HangRoot& root = missing.hang.root;
  root = std::move(absence.root);
  const bool pair = search.timeline.groups()[instance.group].point_to_point;
  const size_t absent = absence.outside.size();
  const size_t came = instance.seen.size();
  // Of as many that came as stayed away, those that were not recorded would decide which are odd.
  const bool tie = absent == came && !search.timeline.groups()[instance.group].all_took_part;
  if (root.kind == HangKind::kOutside && !pair && (absent > came || tie)) {
    missing.majority_absent = true;
    root.path.clear();
    root.member = came == 1 && !tie ? search.timeline.sequences()[instance.seen[0].sequence].member : kNoMember;
  }
  return missing;
}

/// The thread that made the rank's newest call.
int32_t newest_calling_tid(const SearchState& search, MemberIndex member) {
  int32_t tid = 0;
  int64_t newest_ns = std::numeric_limits<int64_t>::min();
  for (const uint32_t index : search.timeline.sequences_of(member)) {
    const CallSequence& sequence = search.timeline.sequences()[index];
    if (sequence.last_arrival_ns > newest_ns) {
      newest_ns = sequence.last_arrival_ns;
      tid = sequence.tid;
    }
  }
  return tid;
}

/// How long the others may wait before a rank that is usually late, and still alive, counts as missing. 0: at once.
int64_t may_still_come_ns(const SearchState& search, const Instance& instance, HangKind kind) {
  const std::optional<int64_t> limit_ns = search.baselines.spread_limit_ns(instance.group);
  return kind == HangKind::kOutside && limit_ns ? kSpreadsToHang * *limit_ns : 0;
}

std::vector<MemberIndex> suspects_of(const HangRoot& root) {
  if (root.member != kNoMember) {
    return {root.member};
  }
  std::vector<MemberIndex> suspects;
  for (const HangStep& step : root.path) {
    suspects.push_back(step.member);
  }
  return suspects;
}

}  // namespace

void judge_absence(SearchState& search, const Instance& instance) {
  if (instance.absent.empty()) {
    return;
  }
  Verdict verdict{.part = StallPart::kAbsent, .limit_ns = kHangNs};
  verdict.window = {instance.last_arrival_ns, hung_to_ns(search, instance)};
  verdict.value_ns = verdict.window.length();
  const auto declined = [&](VerdictReason reason) {
    verdict.reason = reason;
    decline(search, instance, verdict);
  };
  const bool long_enough = outlasts_hang_limit(search, instance);
  if (!long_enough && !broke_off(search, instance)) {
    return declined(short_of_hang(search, instance));
  }
  MissingRank missing;
  HangRoot& root = missing.hang.root;
  std::optional<SignatureVote> vote = search.mismatches.hanging_in(instance.group);
  if (vote) {
    root = {HangKind::kMismatch, vote->odd_one(), {}};
  } else {
    missing = missing_rank(search, instance, verdict.window);
    vote = search.mismatches.blame_end(instance, root);
    vote = vote ? vote : search.mismatches.hanging_at(root);
  }
  if (root.kind == HangKind::kTransfer) {  // the absent ranks are held up in another instance that all have entered
    const HangStep& step = root.path.back();
    search.transfers.push_back({search.timeline.sequences()[step.sequence].group, step.number});
    return declined(VerdictReason::kHeldUpElsewhere);
  }
  missing.hang.ended_job = (!long_enough && ends_jobs(root.kind)) || ended_job(search, root, verdict.window);
  const int64_t patience_ns = may_still_come_ns(search, instance, root.kind);
  if (!missing.hang.ended_job && (!long_enough || verdict.value_ns < patience_ns)) {
    verdict.limit_ns = std::max(kHangNs, patience_ns);
    return declined(long_enough ? VerdictReason::kMayStillCome : short_of_hang(search, instance));
  }
  verdict.reason = missing.hang.ended_job ? VerdictReason::kEndedJob : VerdictReason::kHang;
  Stall stall = begin_stall(search, instance, verdict);
  stall.lost_ns = stall.window.length();
  for (const uint32_t sequence : instance.absent) {
    stall.members.push_back(search.timeline.sequences()[sequence].member);
  }
  stall.suspects = suspects_of(root);
  if (vote) {
    stall.kind = Mismatch{.vote = std::move(*vote), .hang = std::move(missing.hang)};
  } else {
    missing.calling_tid = stall.suspects.size() == 1 ? newest_calling_tid(search, stall.suspects[0]) : 0;
    stall.kind = std::move(missing);
  }
  keep(search, std::move(stall));
}

}  // namespace stalltrace::analysis
