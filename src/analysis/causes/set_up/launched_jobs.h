// SPDX-License-Identifier: Apache-2.0
// The ranks that launchers started, including those that called no collective: before its set-up a job is only a set of
// processes.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "analysis/causes/set_up/unreached.h"
#include "analysis/intervals.h"
#include "analysis/rank_numbers.h"
#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

/// A process with a rank in its environment.
struct LaunchedRank {
  const Process* process = nullptr;
  int32_t rank = 0;
  Interval life{0, 0};                          // common clock; to its exit, or as long as its node was recorded
  std::map<std::string, std::string> settings;  // Process::settings by name

  [[nodiscard]] ProcessKey key() const { return {process->node_id, process->pid}; }
  /// The value, or an empty string.
  [[nodiscard]] std::string setting(const std::string& name) const;
  [[nodiscard]] bool failed() const;
  [[nodiscard]] bool was_asked_to_end() const;
};

/// Ranks whose environment makes them one job, or would if one variable did not differ.
struct LaunchedJob {
  std::vector<LaunchedRank> ranks;  // by rank, then by start
  int32_t world_size = 0;           // of most of them
  bool processes_left_out = false;  // libraries were not probed: a process of the job may not be recorded

  [[nodiscard]] std::set<int32_t> present() const;
  /// Ranks of which no process was recorded.
  [[nodiscard]] MissingRanks missing() const;
};

/// Jobs of which no rank called a collective, and all of whose recorded ranks started while they were recorded: what
/// went before is not known of others. `called`: processes that are known to have called collectives, beside those in
/// `timeline`. A job with a rank on a node that lost calls, or could record none, is left out. Points into `cluster`.
/// Time is n log n of the processes.
std::vector<LaunchedJob> jobs_in_set_up(const Cluster& cluster, const Timeline& timeline,
                                        const std::vector<Loss>& losses, const std::set<ProcessKey>& called);

/// A variable whose value differs between the ranks of a job.
struct Difference {
  std::string name;
  std::map<std::string, std::vector<const LaunchedRank*>> values;  // by value; an empty key: not set

  /// The ranks with the rarest value; if two values are equally rare, the one that the lowest rank does not have.
  [[nodiscard]] const std::vector<const LaunchedRank*>& minority() const;
  /// "MASTER_PORT=29999 on rank 1, MASTER_PORT=29631 on ranks 0 and 2"
  [[nodiscard]] std::string text() const;
};

/// Sorted by name.
std::vector<Difference> differences(const LaunchedJob& job);

}  // namespace stalltrace::analysis
