// SPDX-License-Identifier: Apache-2.0
// Where a hang comes from.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/timeline/cluster.h"

namespace stalltrace::analysis {

/// In order of explanatory power: if a hang has several roots, the greatest is chosen.
enum class HangKind : uint8_t {
  kNone,
  kTransfer,  // all ranks are inside, with equal arguments: the network is silent
  kOutside,   // a rank is alive and in no call at all
  kCycle,     // ranks wait for each other in different calls
  kMismatch,  // ranks entered different calls under one sequence number
  kDead,      // a rank's process has ended
};

/// `member` is inside this call and waits for the member of the next step.
struct HangStep {
  MemberIndex member = kNoMember;
  uint32_t sequence = 0;
  int64_t number = 0;
};

struct HangRoot {
  HangKind kind = HangKind::kNone;
  MemberIndex member = kNoMember;  // dead, outside, or the odd one; none if no single rank differs
  std::vector<HangStep> path;      // from the first rank of the search to the root
  bool concluded = false;  // from the order in which ranks launched calls, of which no end shows which ones hang
};

/// The vote on the signatures of one instance whose ranks differ.
struct SignatureVote {
  uint32_t group = 0;
  int64_t number = 0;
  uint16_t usual = 0;                 // the signature of most ranks
  uint16_t odd = 0;                   // another one
  bool by_history = false;            // no majority: `usual` is what all ranks entered before
  std::vector<MemberIndex> odd_ones;  // ranks with another signature; empty where neither shows which is the usual one

  /// The odd rank; none if there are several.
  [[nodiscard]] MemberIndex odd_one() const { return odd_ones.size() == 1 ? odd_ones[0] : kNoMember; }
};

}  // namespace stalltrace::analysis
