// SPDX-License-Identifier: Apache-2.0
// Which instances took too long, by how much, and which part of them: waiting for a rank, or the transfer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/stalls/baseline.h"
#include "analysis/stalls/hangs/job_ends.h"
#include "analysis/stalls/reference.h"
#include "analysis/stalls/stall.h"
#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

struct StallSearchOptions {
  TimeRange range;                       // only stalls that overlap it are kept; on the common clock
  std::optional<InstanceId> watched;     // an instance whose verdicts are all kept, also those without a stall
  const Reference* reference = nullptr;  // of a run that was right; null: this run is compared with itself alone
};

/// The search's decisions about the watched instance, apart from its stalls.
struct WatchedInstance {
  Baseline transfer;              // the transfers that it was compared with
  Spread transfer_spread;         // of the same
  int64_t transfer_limit_ns = 0;  // a longer transfer is a stall
  int64_t late_limit_ns = 0;      // a longer wait for the last rank is a stall
  bool warming_up = false;        // the limits are those of a communicator's first instances
  std::vector<Stall> declined;    // parts that are no stalls, in the form of stalls; their verdicts give the reason
};

/// Collectives in which ranks waited for one that came late, by their own clocks, while the hosts' clocks could not be
/// compared: who it was is not known.
struct UnplacedWaits {
  int64_t collectives = 0;
  int64_t waited_ns = 0;
  int64_t longest_ns = 0;
};

struct StallSearch {
  std::vector<Stall> stalls;  // in time order
  UnplacedWaits unplaced_waits;
  int64_t dropped = 0;  // stalls beyond kMaxStalls, the least expensive ones
  std::optional<WatchedInstance> watched;
  ReferenceUse reference_use;  // with a reference
};

/// Judges every instance of the timeline. Time is linear in the calls for a job without hangs; each hang adds a walk
/// over the open calls. Memory: a few kilobytes per baseline class, and at most 2 * kMaxStalls stalls.
StallSearch find_stalls(const Timeline& timeline, const Cluster& cluster, const JobEnds& ends,
                        const StallSearchOptions& options);

}  // namespace stalltrace::analysis
