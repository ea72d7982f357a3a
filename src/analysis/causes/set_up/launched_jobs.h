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
};

/// Ranks whose environment makes them one job, or would if one variable did not differ.
struct LaunchedJob {
  std::vector<LaunchedRank> ranks;  // by rank, then by start
  int32_t world_size = 0;           // the value that most of them have

  [[nodiscard]] std::set<int32_t> present() const;
  /// The number of ranks without a recorded process, and the first of these ranks: at most one more than ranks_text()
  /// lists.
  [[nodiscard]] int64_t absent() const;
  [[nodiscard]] std::vector<int32_t> missing() const;
};

/// Jobs in which no rank called a collective, and whose recorded ranks all started during the recording: the history of
/// other jobs is unknown. `called`: processes that are known to have called collectives, in addition to those in
/// `timeline`. Nodes that lost or did not record calls are left out. The result points into `cluster`. Time is the
/// product of the numbers of processes and jobs.
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

/// "rank 1", "ranks 0 and 2", "ranks 0 to 6"; at most 16 are listed.
std::string ranks_text(std::vector<int32_t> ranks);

}  // namespace stalltrace::analysis
