// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/hangs/signature_mismatches.h"

#include <algorithm>

#include "analysis/stalls/hangs/signature_votes.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kKindsKept = 256;  // per group: different combinations that are counted separately

}  // namespace

const std::optional<SignatureVote>& SignatureMismatches::hanging_in(uint32_t group) {
  const auto [found, fresh] = hanging_.try_emplace(group);
  if (fresh) {
    found->second = disagreement(timeline_, group);
  }
  return found->second;
}

std::optional<SignatureVote> SignatureMismatches::hanging_at(const HangRoot& root) {
  if (root.kind != HangKind::kMismatch || root.path.empty()) {
    return std::nullopt;
  }
  return hanging_in(timeline_.sequences()[root.path.back().sequence].group);
}

bool SignatureMismatches::note_ended(const Instance& instance) {
  const Group& group = timeline_.groups()[instance.group];
  if (!instance.signatures_differ || !instance.completed() || group.hash == 0 || group.point_to_point ||
      !timeline_.signature(instance.signature).exact) {
    return false;
  }
  const std::optional<SignatureVote> vote = vote_on(timeline_, instance.group, instance.number);
  if (!vote) {
    return false;
  }
  std::vector<Ended>& ended = ended_[instance.group];
  const auto alike = std::find_if(ended.begin(), ended.end(), [&](const Ended& other) {
    return other.counted.usual == vote->usual && other.counted.odd == vote->odd &&
           other.counted.odd_ones == vote->odd_ones;
  });
  if (alike != ended.end()) {
    ++alike->instances;
    return false;
  }
  if (ended.size() >= kKindsKept) {
    ++ended.back().instances;
    return false;
  }
  ended.push_back({.vote = *vote, .counted = *vote, .instances = 1});
  decide_by_history(timeline_, ended.back().vote);
  return true;
}

const SignatureMismatches::Ended* SignatureMismatches::ended_in(const Instance& instance) const {
  const auto group = ended_.find(instance.group);
  if (group == ended_.end()) {
    return nullptr;
  }
  const auto found = std::find_if(group->second.begin(), group->second.end(),
                                  [&](const Ended& ended) { return ended.vote.number == instance.number; });
  return found == group->second.end() ? nullptr : &*found;
}

std::optional<SignatureVote> SignatureMismatches::blame_end(const Instance& instance, HangRoot& root) const {
  const auto group = ended_.find(instance.group);
  if (group == ended_.end() || root.kind != HangKind::kDead || cluster_.member(root.member).ended_badly()) {
    return std::nullopt;
  }
  for (const Ended& ended : group->second) {
    const CallSignature& usual = timeline_.signature(ended.vote.usual);
    const CallSignature& odd = timeline_.signature(ended.vote.odd);
    if (ended.vote.number < instance.number && (!usual.sized_as(odd) || usual.op != odd.op)) {
      root.kind = HangKind::kMismatch;
      root.member = ended.vote.odd_one();
      return ended.vote;
    }
  }
  return std::nullopt;
}

}  // namespace stalltrace::analysis
