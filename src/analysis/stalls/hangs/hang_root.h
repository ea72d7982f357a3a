// SPDX-License-Identifier: Apache-2.0
// Where a hang comes from.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/timeline/cluster.h"

namespace stalltrace::analysis {

/// In order of what explains more: of several roots of one hang the greatest is chosen.
enum class HangKind : uint8_t {
  kNone,
  kTransfer,  // all ranks are in, with equal arguments: the network is silent
  kOutside,   // a rank is alive and in no call at all
  kCycle,     // ranks wait for each other in different calls
  kMismatch,  // ranks entered different calls under one sequence number
  kDead,      // a rank's process has ended
};

/// `member` is inside this call; it waits for the member of the next step.
struct HangStep {
  MemberIndex member = kNoMember;
  uint32_t sequence = 0;
  int64_t column = 0;
};

struct HangRoot {
  HangKind kind = HangKind::kNone;
  MemberIndex member = kNoMember;  // dead, outside, or the odd one; none where no rank stands out
  std::vector<HangStep> path;      // from the rank that the search began with to the root
};

/// What the ranks of one instance entered, by majority, where they differ.
struct SignatureVote {
  uint32_t group = 0;
  int64_t column = 0;
  uint16_t usual = 0;                 // signature that most entered
  uint16_t odd = 0;                   // another one
  std::vector<MemberIndex> odd_ones;  // who entered something else; empty when there is no majority

  /// The odd rank; none where there are several.
  [[nodiscard]] MemberIndex odd_one() const { return odd_ones.size() == 1 ? odd_ones[0] : kNoMember; }
};

}  // namespace stalltrace::analysis
