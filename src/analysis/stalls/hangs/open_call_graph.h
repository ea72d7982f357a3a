// SPDX-License-Identifier: Apache-2.0
// The graph of open calls: where every rank is while some calls never end. It follows the waits from one open call to
// the rank or instance that all the others wait for. No rank serves as the reference, and stopped and dead ranks are
// handled. Each walk visits an open call once: its time is at most open calls times ranks.
#pragma once

#include <cstdint>
#include <map>
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
  /// All arguments must outlive the graph and stay unchanged.
  OpenCallGraph(const Timeline& timeline, const Cluster& cluster, const JobEnds& ends);

  struct Absence {
    HangRoot root;                     // the one that explains most
    std::vector<MemberIndex> outside;  // absent members that are alive and in no call
  };
  /// Why the absent ranks of `instance` did not enter it while others waited in it for `window`.
  [[nodiscard]] Absence absence_of(const Instance& instance, Interval window) const;
  /// For an instance that all ranks have entered: if one of them has been inside an older call elsewhere, the root of
  /// that call, since calls of one rank end in order. kNone if there is no such call.
  [[nodiscard]] HangRoot behind(const Instance& instance, Interval window) const;
  /// For an instance that all ranks have entered: one rank waits in an older call of another communicator, which all
  /// have entered as well and in which another rank waits for this instance. The ranks called in different orders.
  /// Where no ends are seen and a rank is inside of a call that does not return, different_launch_order(). kNone if
  /// there is no such cycle.
  [[nodiscard]] HangRoot order_cycle(const Instance& instance) const;
  /// The one rank of the group's job attempt that has stopped in the middle of a step: it has launched calls that all
  /// of their ranks have launched, and not the next one, which others wait in for `window`, and it does not wait in a
  /// synchronisation (launch_habits.h). kOutside with its rank and no path; kNone if there is none or several, if
  /// another rank is in no call at all, or one has died.
  [[nodiscard]] HangRoot stopped_in_step(uint32_t group, Interval window) const;
  /// The group's member whose process ended first, early enough to explain most of the window.
  [[nodiscard]] MemberIndex dead_in(uint32_t group, Interval window) const;

 private:
  [[nodiscard]] std::optional<HangStep> open_call(MemberIndex member, uint32_t group, int64_t number) const;
  [[nodiscard]] std::vector<HangStep> older_calls(const Instance& instance) const;
  [[nodiscard]] std::vector<uint32_t> lacking(uint32_t group, int64_t number) const;
  [[nodiscard]] bool died(MemberIndex member, Interval window) const;
  [[nodiscard]] MemberIndex first_death(MemberIndex member) const;
  [[nodiscard]] MemberIndex odd_one_of(const std::vector<HangStep>& cycle) const;
  [[nodiscard]] MemberIndex odd_one_by_order(const std::vector<HangStep>& cycle) const;
  [[nodiscard]] std::map<MemberIndex, uint32_t> sequences_with(uint32_t group, int64_t number) const;
  [[nodiscard]] HangRoot find_changed_order(AttemptIndex attempt) const;
  using Path = std::vector<HangStep>;
  /// A walk from open call to open call. A visited call is not examined again: a second visit finds nothing better than
  /// the first.
  struct Walk {
    Interval window;
    Path path = {};                                        // from the first open call to the current one
    HangRoot best = {};                                    // the first root of the greatest kind
    std::set<std::pair<uint32_t, int64_t>> visited = {};   // sequence and number of open calls
    std::set<std::pair<uint32_t, int64_t>> complete = {};  // group and number of instances that all ranks have entered

    void offer(HangKind kind, MemberIndex who);
  };
  using Visited = std::set<std::pair<uint32_t, int64_t>>;  // group and number of instances
  [[nodiscard]] bool leads_back(const Instance& from, const Instance& to, std::vector<HangStep>& path,
                                Visited& visited) const;
  void offer_cycle(Path::const_iterator from, Path::const_iterator to, Walk& walk) const;
  void examine(const HangStep& open, Walk& walk) const;
  [[nodiscard]] bool examine_older(const HangStep& open, Walk& walk) const;
  void follow(uint32_t sequence, uint32_t group, int64_t number, Walk& walk) const;
  [[nodiscard]] bool waits_for_no_rank(MemberIndex member) const;
  [[nodiscard]] bool came_to_synchronisation(const Instance& instance) const;
  [[nodiscard]] HangRoot find_stopped(AttemptIndex attempt) const;

  const Timeline& timeline_;
  const Cluster& cluster_;
  const JobEnds& ends_;
  std::vector<std::vector<HangStep>> open_calls_;     // by member: the oldest open call of each of its sequences
  mutable std::map<AttemptIndex, HangRoot> stopped_;  // once asked for
  mutable std::map<AttemptIndex, HangRoot> changed_;  // likewise
};

}  // namespace stalltrace::analysis
