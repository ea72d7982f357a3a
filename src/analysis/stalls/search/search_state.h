// SPDX-License-Identifier: Apache-2.0
// Shared state of the stall search's phases. Each phase judges one part of an instance and adds a stall, or a verdict
// that it is none. Internal to find_stalls; single-threaded.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/stalls/baselines.h"
#include "analysis/stalls/find_stalls.h"
#include "analysis/stalls/hangs/open_call_graph.h"
#include "analysis/stalls/hangs/signature_mismatches.h"
#include "analysis/stalls/search/step_lateness.h"

namespace stalltrace::analysis {

struct SearchState {
  SearchState(const Timeline& timeline, const Cluster& cluster, const JobEnds& ends, const StallSearchOptions& options);

  const Timeline& timeline;
  const Cluster& cluster;
  const JobEnds& ends;
  StallSearchOptions options;
  std::vector<Clock::Known> clocks;  // by member
  Baselines baselines;
  OpenCallGraph graph;
  SignatureMismatches mismatches;
  /// When ranks waited for a late or missing one, or were that one: of all ranks of a group, by group; of others by
  /// member.
  std::vector<std::vector<Interval>> group_waited;
  std::vector<std::vector<Interval>> waited;
  std::vector<IntervalSet> group_waited_sets;  // the same as sets, once all late and missing ranks are known
  std::vector<IntervalSet> waited_sets;
  int64_t members_held = 0;           // ranks that the stalls name
  std::vector<InstanceId> transfers;  // judged after all late and missing ranks; may hold an instance twice
  /// Short waits for one device, one after the other on one communicator, that are no stall each.
  struct DeviceRun {
    uint32_t group = 0;
    MemberIndex rank = kNoMember;
    int64_t waited_ns = 0;
    std::vector<Interval> waits;
  };
  DeviceRun device_run;
  bool all_comparable = true;                                    // the clocks of all hosts
  std::map<uint32_t, std::optional<int64_t>> usual_lateness_ns;  // by sequence, once asked for
  UsualLateness usual_lateness;
  StallSearch result;
};

/// What lateness and transfer of this instance have to exceed, whatever its baseline: of the first instances of a
/// communicator kWarmUpFloorNs, else 0.
int64_t warm_up_floor_ns(const SearchState& search, const Instance& instance);

/// The fields that all kinds of stalls have; its members are the ranks that arrived.
Stall begin_stall(const SearchState& search, const Instance& instance, const Verdict& verdict);

/// The parts of `window` in which any of the stall's ranks waited for a late or missing rank; once all are known.
IntervalSet waited_in(const SearchState& search, const Stall& stall, Interval window);

/// Adds a stall unless it is outside of the range. `waits`: when its ranks waited, if not in the whole of its window.
void keep(SearchState& search, Stall stall, const std::vector<Interval>& waits = {});

/// Keeps the reason why a part of the watched instance is no stall. `as_if` has the form of the stall that it would be.
void decline_watched(SearchState& search, Stall as_if);
void decline_watched(SearchState& search, const Instance& instance, const Verdict& verdict);
/// Rejects a part of the instance as a stall; the verdict is kept only for the watched instance.
inline void decline(SearchState& search, const Instance& instance, const Verdict& verdict) {
  if (search.options.watched && *search.options.watched == InstanceId{instance.group, instance.number}) {
    decline_watched(search, instance, verdict);
  }
}

/// How far the order of events on the hosts of these ranks may be off; 0 on one host, none where nothing bounds it.
std::optional<int64_t> clock_error_ns(const SearchState& search, const Instance& instance);
/// At least how long the transfer of an instance that ended took, whatever the clocks of its hosts show: no shorter
/// than the shortest stay of any rank by its own clock, since each of them was there for all of its transfer.
int64_t certain_transfer_ns(const SearchState& search, const Instance& instance);

/// Keeps only the most expensive stalls if there are too many to examine.
void bound_stalls(SearchState& search);

/// The last time at which a rank was observed inside a hanging instance.
int64_t hung_to_ns(const SearchState& search, const Instance& instance);
/// True if the instance hangs for long enough to be a hang.
bool outlasts_hang_limit(const SearchState& search, const Instance& instance);
/// Why it does not: kBelowLimit, or kStillLaunching where its ranks went on although it has not ended for that long.
VerdictReason short_of_hang(const SearchState& search, const Instance& instance);
/// True if the job ended in the instance: a rank failed, and the others soon followed, ended by the launcher or by
/// their own errors. A job whose ranks were all killed was killed as a whole. Profiler files do not show how a process
/// ended, only that others outlived it.
bool broke_off(const SearchState& search, const Instance& instance);
/// True if a hang of this kind may end a job. kTransfer: a connection may have broken.
bool ends_jobs(HangKind kind);
/// True if the root is the rank that ended the job by leaving it and the others soon followed. What ended in `window`
/// is then no hang, however long they had waited for that rank before.
bool ended_job(const SearchState& search, const HangRoot& root, Interval window);

}  // namespace stalltrace::analysis
