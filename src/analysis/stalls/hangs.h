// SPDX-License-Identifier: Apache-2.0
// The map of open collectives: where every rank is when some never end. Follows who waits for whom from one open call
// to the rank or instance that all the others wait for, and takes votes on what the ranks of one instance entered.
// No rank is the reference; works for stopped and dead ranks too.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/timeline/instance.h"

namespace stalltrace::analysis {

enum class HangKind : uint8_t {
  kNone,
  kTransfer,  // all ranks are in, with equal arguments: the wire is silent
  kOutside,   // a rank is alive and in no call at all
  kCycle,     // ranks wait for each other in different calls
  kMismatch,  // ranks entered different things under one sequence number
  kDead,      // a rank's process has ended
};

/// `member` is inside this call; it waits for the member of the next step.
struct HangStep {
  MemberIndex member = kNoMember;
  uint32_t sequence = 0;
  int64_t column = 0;
};

/// Where a hang comes from.
struct HangRoot {
  HangKind kind = HangKind::kNone;
  MemberIndex member = kNoMember;  // dead, outside, or the odd one; none where no rank stands out
  std::vector<HangStep> path;      // from the first rank that was asked about to the root
};

/// What the ranks of one instance entered, by majority, where they disagree.
struct SignatureVote {
  uint32_t group = 0;
  int64_t column = 0;
  uint16_t usual = 0;                 // shape that most entered
  uint16_t odd = 0;                   // another one
  std::vector<MemberIndex> odd_ones;  // who entered something else; empty when there is no majority
};

class OpenCallGraph {
 public:
  OpenCallGraph(const Timeline& timeline, const Cluster& cluster) : timeline_(timeline), cluster_(cluster) {}

  /// Why `lane` did not enter the instance (`group`, `column`) in which others were from `from_ns` to `to_ns`.
  [[nodiscard]] HangRoot root_of(uint32_t sequence, uint32_t group, int64_t column, Interval window) const;
  /// All ranks are inside `instance`, and one of them has been inside an older call elsewhere: calls of one rank end in
  /// order, so that this one waits for the older one's root. kNone when there is no such call.
  [[nodiscard]] HangRoot behind(const Instance& instance, Interval window) const;
  /// All ranks are inside `instance`, one of them behind an older call of another communicator, in which all are, too,
  /// one of them behind this one: they called in different orders. kNone when there is no such circle.
  [[nodiscard]] HangRoot order_cycle(const Instance& instance) const;
  /// What the ranks entered under one sequence number; none where all agree.
  [[nodiscard]] std::optional<SignatureVote> vote_on(uint32_t group, int64_t column) const;
  /// The instance in which ranks disagree and which no later one, complete and agreed, has refuted; none where all
  /// agree. Looks only at groups with open calls.
  [[nodiscard]] std::optional<SignatureVote> disagreement(uint32_t group) const;
  /// Of the members of the group, the one whose process ended first and early enough to explain most of the window.
  [[nodiscard]] MemberIndex dead_in(uint32_t group, Interval window) const;

 private:
  [[nodiscard]] bool all_ended(const Group& group, int64_t column) const;
  [[nodiscard]] std::optional<HangStep> open_call(MemberIndex member, uint32_t group, int64_t column) const;
  [[nodiscard]] std::vector<uint32_t> lacking(uint32_t group, int64_t column) const;
  [[nodiscard]] bool died(MemberIndex member, Interval window) const;
  [[nodiscard]] MemberIndex first_death(MemberIndex member) const;
  [[nodiscard]] MemberIndex odd_one_of(const std::vector<HangStep>& cycle) const;
  [[nodiscard]] bool leads_back(const Instance& from, const Instance& to, std::vector<HangStep>& path) const;
  void examine(const HangStep& open, Interval window, std::vector<HangStep>& path, HangRoot& best) const;
  void follow(uint32_t sequence, uint32_t group, int64_t column, Interval window, std::vector<HangStep>& path,
              HangRoot& best) const;

  const Timeline& timeline_;
  const Cluster& cluster_;
};

}  // namespace stalltrace::analysis
