// SPDX-License-Identifier: Apache-2.0
#include "analysis/disagreements.h"

#include "analysis/stalls.h"

namespace stalltrace::analysis {

const std::optional<Vote>& Disagreements::hanging_in(uint32_t group) {
  const auto [found, fresh] = hanging_.try_emplace(group);
  if (fresh) {
    found->second = hangs_.disagreement(group);
  }
  return found->second;
}

/// Only where the library asks all ranks for equal arguments; calls that were lined up by time may be lined up wrongly.
bool Disagreements::note_ended(const Instance& instance) {
  const Group& group = timeline_.groups()[instance.group];
  if (!instance.uneven || !instance.completed() || group.hash == 0 || group.point_to_point ||
      !timeline_.shape(instance.shape).exact || ended_.size() >= static_cast<size_t>(kMaxStalls)) {
    return false;
  }
  const std::optional<Vote> vote = hangs_.vote_on(instance.group, instance.column);
  if (vote) {
    ended_[{instance.group, instance.column}] = *vote;
  }
  return vote.has_value();
}

void Disagreements::blame_ended(const Instance& instance, Stall& stall) const {
  if (const auto found = ended_.find({instance.group, instance.column}); found != ended_.end()) {
    blame(stall, found->second);
    stall.wrong_data = true;
  }
}

void Disagreements::blame_end(const Instance& instance, Stall& stall) const {
  if (stall.hang.kind != HangKind::kDead || cluster_.member(stall.hang.member).ended_badly()) {
    return;
  }
  const auto later = ended_.upper_bound({instance.group, instance.column});
  if (later != ended_.begin() && std::prev(later)->first.first == instance.group) {
    blame(stall, std::prev(later)->second);
  }
}

void Disagreements::blame(Stall& stall, const Vote& vote) {
  stall.vote = vote;
  stall.hang.kind = HangKind::kMismatch;
  stall.hang.member = vote.odd_ones.size() == 1 ? vote.odd_ones[0] : kNoMember;
}

}  // namespace stalltrace::analysis
