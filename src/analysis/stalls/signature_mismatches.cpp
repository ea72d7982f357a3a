// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/signature_mismatches.h"

#include <algorithm>

#include "analysis/stalls/stalls.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kKindsKept = 256;  // of a group: ways in which its ranks disagree that are told apart

}  // namespace

const std::optional<SignatureVote>& SignatureMismatches::hanging_in(uint32_t group) {
  const auto [found, fresh] = hanging_.try_emplace(group);
  if (fresh) {
    found->second = hangs_.disagreement(group);
  }
  return found->second;
}

/// Only where the library asks all ranks for equal arguments; calls that were lined up by time may be lined up wrongly.
bool SignatureMismatches::note_ended(const Instance& instance) {
  const Group& group = timeline_.groups()[instance.group];
  if (!instance.signatures_differ || !instance.completed() || group.hash == 0 || group.point_to_point ||
      !timeline_.signature(instance.signature).exact) {
    return false;
  }
  const std::optional<SignatureVote> vote = hangs_.vote_on(instance.group, instance.column);
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

void SignatureMismatches::blame_ended(const Instance& instance, Stall& stall) const {
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

void SignatureMismatches::blame_end(const Instance& instance, Stall& stall) const {
  const auto group = ended_.find(instance.group);
  if (group == ended_.end() || stall.hang.kind != HangKind::kDead || cluster_.member(stall.hang.member).ended_badly()) {
    return;
  }
  for (const Ended& ended : group->second) {
    const CallSignature& usual = timeline_.signature(ended.vote.usual);
    const CallSignature& odd = timeline_.signature(ended.vote.odd);
    if (ended.vote.column < instance.column && (usual.bytes != odd.bytes || usual.op != odd.op)) {
      blame(stall, ended.vote);
      return;
    }
  }
}

void SignatureMismatches::blame(Stall& stall, const SignatureVote& vote) {
  stall.vote = vote;
  stall.hang.kind = HangKind::kMismatch;
  stall.hang.member = vote.odd_ones.size() == 1 ? vote.odd_ones[0] : kNoMember;
}

}  // namespace stalltrace::analysis
