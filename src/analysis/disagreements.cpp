// SPDX-License-Identifier: Apache-2.0
#include "analysis/disagreements.h"

#include <algorithm>

#include "analysis/stalls.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kKindsKept = 256;  // of a group: ways in which its ranks disagree that are told apart

}  // namespace

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
      !timeline_.shape(instance.shape).exact) {
    return false;
  }
  const std::optional<Vote> vote = hangs_.vote_on(instance.group, instance.column);
  if (!vote) {
    return false;
  }
  std::vector<Ended>& ended = ended_[instance.group];
  const auto alike = std::find_if(ended.begin(), ended.end(), [&](const Ended& other) {
    return other.vote.usual == vote->usual && other.vote.odd == vote->odd && other.vote.odd_ones == vote->odd_ones;
  });
  if (alike != ended.end()) {
    ++alike->instances;
    return false;
  }
  if (ended.size() >= kKindsKept) {
    ++ended.back().instances;
    return false;
  }
  ended.push_back({*vote, 1});
  return true;
}

void Disagreements::blame_ended(const Instance& instance, Stall& stall) const {
  const auto group = ended_.find(instance.group);
  if (group == ended_.end()) {
    return;
  }
  for (const Ended& ended : group->second) {
    if (ended.vote.column == instance.column) {
      blame(stall, ended.vote);
      stall.wrong_data = ended.instances;
    }
  }
}

void Disagreements::blame_end(const Instance& instance, Stall& stall) const {
  const auto group = ended_.find(instance.group);
  if (group == ended_.end() || stall.hang.kind != HangKind::kDead || cluster_.member(stall.hang.member).ended_badly()) {
    return;
  }
  for (const Ended& ended : group->second) {
    const Shape& usual = timeline_.shape(ended.vote.usual);
    const Shape& odd = timeline_.shape(ended.vote.odd);
    if (ended.vote.column < instance.column && (usual.bytes != odd.bytes || usual.op != odd.op)) {
      blame(stall, ended.vote);
      return;
    }
  }
}

void Disagreements::blame(Stall& stall, const Vote& vote) {
  stall.vote = vote;
  stall.hang.kind = HangKind::kMismatch;
  stall.hang.member = vote.odd_ones.size() == 1 ? vote.odd_ones[0] : kNoMember;
}

}  // namespace stalltrace::analysis
