// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/search/mismatch.h"

#include <algorithm>
#include <limits>

#include "analysis/thresholds/stalls.h"

namespace stalltrace::analysis {
namespace {

/// The last time at which a rank that entered the instance was observed inside its last call.
int64_t inside_to_ns(const Timeline& timeline, const Instance& instance) {
  int64_t to_ns = std::numeric_limits<int64_t>::min();
  for (const Arrival& seen : instance.seen) {
    const CallSequence& sequence = timeline.sequences()[seen.sequence];
    if (!sequence.calls.empty() && sequence.calls.back().is_open()) {
      to_ns = std::max(to_ns, std::min(sequence.observed_to_ns(), timeline.span().to_ns));
    }
  }
  return to_ns;
}

}  // namespace

void judge_hanging_mismatches(SearchState& search) {
  Instance instance;
  for (uint32_t group = 0; group < search.timeline.groups().size(); ++group) {
    const std::optional<SignatureVote>& vote = search.mismatches.hanging_in(group);
    if (!vote || !read_instance(search.timeline, group, vote->number, instance)) {
      continue;
    }
    Verdict verdict{.part = StallPart::kTransfer, .limit_ns = kHangNs};
    verdict.window = {instance.last_arrival_ns, inside_to_ns(search.timeline, instance)};
    verdict.value_ns = verdict.window.length();
    Mismatch mismatch{.vote = *vote};
    mismatch.hang.root = {HangKind::kMismatch, vote->odd_one(), {}};
    mismatch.hang.ended_job = verdict.value_ns < kHangNs && broke_off(search, instance);
    if (verdict.value_ns < kHangNs && !mismatch.hang.ended_job) {
      verdict.reason = VerdictReason::kBelowLimit;
      decline(search, instance, verdict);
      continue;
    }
    verdict.reason = mismatch.hang.ended_job ? VerdictReason::kEndedJob : VerdictReason::kHang;
    Stall stall = begin_stall(search, instance, verdict);
    stall.lost_ns = stall.window.length();
    stall.suspects = vote->odd_ones;
    stall.kind = std::move(mismatch);
    keep(search, std::move(stall));
  }
}

}  // namespace stalltrace::analysis
