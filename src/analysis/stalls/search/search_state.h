// SPDX-License-Identifier: Apache-2.0
// What the phases of the stall search share. Each phase judges one part of an instance and hands in a stall, or a
// verdict that it is none. Internal to find_stalls; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/stalls/baselines.h"
#include "analysis/stalls/find_stalls.h"
#include "analysis/stalls/hangs/open_call_graph.h"
#include "analysis/stalls/hangs/signature_mismatches.h"

namespace stalltrace::analysis {

struct SearchState {
  SearchState(const Timeline& timeline, const Cluster& cluster, const JobEnds& ends, const StallSearchOptions& options);

  const Timeline& timeline;
  const Cluster& cluster;
  const JobEnds& ends;
  StallSearchOptions options;
  Baselines baselines;
  OpenCallGraph graph;
  SignatureMismatches mismatches;
  std::vector<std::vector<uint32_t>> sequences_of;  // by member
  std::vector<std::vector<Interval>> waited;        // by member: when it waited for (or was) a late or missing rank
  std::vector<IntervalSet> waited_sets;             // the same, once all late and missing ranks are known
  std::vector<InstanceId> transfers;                // to be judged after them; may hold an instance twice
  StallSearch result;
};

/// The part of a stall that all kinds have: the members are those that arrived.
Stall begin_stall(const SearchState& search, const Instance& instance, const Verdict& verdict);

/// Hands in a stall; outside of the range it is none.
void keep(SearchState& search, Stall stall);

/// Remembers why a part of the watched instance is no stall. `as_if` is the part as if it were one.
void decline_watched(SearchState& search, Stall as_if);
void decline_watched(SearchState& search, const Instance& instance, const Verdict& verdict);
/// Says that a part of the instance is no stall: kept for the watched instance alone.
inline void decline(SearchState& search, const Instance& instance, const Verdict& verdict) {
  if (search.options.watched && *search.options.watched == InstanceId{instance.group, instance.column}) {
    decline_watched(search, instance, verdict);
  }
}

/// Keeps the most expensive stalls when there are too many to examine.
void bound_stalls(SearchState& search);

/// Until when a rank was observed inside a hanging instance.
int64_t hung_to_ns(const SearchState& search, const Instance& instance);
/// The instance hangs, and for long enough for a hang.
bool outlasts_hang_limit(const SearchState& search, const Instance& instance);
/// The job ended in the instance: a rank failed, and the others, ended by the launcher or by their own errors, soon
/// followed. A job whose ranks were all killed was killed as a whole. Profiler files do not show how a process ended,
/// only that others outlived it.
bool broke_off(const SearchState& search, const Instance& instance);
/// A job may end of a hang of this kind. kTransfer: a connection may have broken.
bool ends_jobs(HangKind kind);
/// The root is the rank that ended the job by leaving it, and the others soon followed: what ended in `window` is no
/// hang, however long they had waited for that rank before.
bool ended_job(const SearchState& search, const HangRoot& root, Interval window);

}  // namespace stalltrace::analysis
