// SPDX-License-Identifier: Apache-2.0
// The graph of open calls: where every rank is when some calls never end. Follows who waits for whom from one open call
// to the rank or instance that all the others wait for, and takes votes on what the ranks of one instance entered.
// No rank is the reference; works for stopped and dead ranks too. Each walk visits an open call once: its time is at
// most open calls times ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "analysis/stalls/hangs/hang_root.h"
#include "analysis/stalls/hangs/job_ends.h"
#include "analysis/timeline/instance.h"

namespace stalltrace::analysis {

class OpenCallGraph {
 public:
  /// All outlive the graph and stay as they are.
  OpenCallGraph(const Timeline& timeline, const Cluster& cluster, const JobEnds& ends);

  struct Absence {
    HangRoot root;                     // the one that explains most
    std::vector<MemberIndex> outside;  // the absent members that are alive and in no call
  };
  /// Why the absent ranks of `instance` did not enter it while others were in it for `window`.
  [[nodiscard]] Absence absence_of(const Instance& instance, Interval window) const;
  /// All ranks are inside `instance`, and one of them has been inside an older call elsewhere: calls of one rank end in
  /// order, so that this one waits for the older one's root. kNone when there is no such call.
  [[nodiscard]] HangRoot behind(const Instance& instance, Interval window) const;
  /// All ranks are inside `instance`, one of them behind an older call of another communicator, in which all are, too,
  /// one of them behind this one: they called in different orders. kNone when there is no such circle.
  [[nodiscard]] HangRoot order_cycle(const Instance& instance) const;
  /// What the ranks entered under one sequence number; none where all agree.
  [[nodiscard]] std::optional<SignatureVote> vote_on(uint32_t group, int64_t column) const;
  /// The instance in which ranks differ, unless a later one that all entered alike and ended proves that it passed.
  /// None for groups without open calls.
  [[nodiscard]] std::optional<SignatureVote> disagreement(uint32_t group) const;
  /// Of the members of the group, the one whose process ended first and early enough to explain most of the window.
  [[nodiscard]] MemberIndex dead_in(uint32_t group, Interval window) const;

 private:
  [[nodiscard]] bool all_ended(const Group& group, int64_t column) const;
  [[nodiscard]] std::optional<HangStep> open_call(MemberIndex member, uint32_t group, int64_t column) const;
  [[nodiscard]] std::vector<HangStep> older_calls(const Instance& instance) const;
  [[nodiscard]] std::vector<uint32_t> lacking(uint32_t group, int64_t column) const;
  [[nodiscard]] bool died(MemberIndex member, Interval window) const;
  [[nodiscard]] MemberIndex first_death(MemberIndex member) const;
  [[nodiscard]] MemberIndex odd_one_of(const std::vector<HangStep>& cycle) const;
  using Path = std::vector<HangStep>;
  /// A walk from open call to open call. A call that was visited is not examined again: nothing behind it can be better
  /// than what its first visit found.
  struct Walk {
    Interval window;
    Path path = {};                                        // from the first open call to the one that is examined
    HangRoot best = {};                                    // the first root found of the greatest kind
    std::set<std::pair<uint32_t, int64_t>> visited = {};   // sequence and column of open calls
    std::set<std::pair<uint32_t, int64_t>> complete = {};  // group and column of instances that all have entered

    void offer(HangKind kind, MemberIndex who);
  };
  using Visited = std::set<std::pair<uint32_t, int64_t>>;  // group and column of instances
  [[nodiscard]] bool leads_back(const Instance& from, const Instance& to, std::vector<HangStep>& path,
                                Visited& visited) const;
  void offer_cycle(Path::const_iterator from, Path::const_iterator to, Walk& walk) const;
  void examine(const HangStep& open, Walk& walk) const;
  [[nodiscard]] bool examine_older(const HangStep& open, Walk& walk) const;
  void follow(uint32_t sequence, uint32_t group, int64_t column, Walk& walk) const;

  const Timeline& timeline_;
  const Cluster& cluster_;
  const JobEnds& ends_;
  std::vector<std::vector<HangStep>> open_calls_;  // by member: the oldest of each of its sequences
};

}  // namespace stalltrace::analysis
