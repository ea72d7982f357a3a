// SPDX-License-Identifier: Apache-2.0
// Finds the jobs that run on this host without tracing: their ranks, and each rank's descendants.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/process/procfs.h"
#include "capture/discover/identity.h"

namespace stalltrace::cli {

/// A process of this host, with the properties that decide its rank and its job.
struct RunningProcess {
  pid_t pid = 0;
  pid_t parent = 0;
  capture::JobIdentity identity;  // from its environment, which children inherit
  bool python = false;
  bool collective_library = false;  // maps a collective library
};

/// A rank with its descendants, or a process with a collective library and an unknown rank.
struct RunningRank {
  pid_t pid = 0;
  std::optional<int32_t> rank;
  std::string job;
  std::optional<std::string> launcher_job;  // the launcher's name, where several jobs have it: `job` has more then
  std::vector<pid_t> descendants;           // parents before their children
};

/// Pure. A rank is the first process of its line of descent that has its identity and is Python or uses a collective
/// library. Processes that it starts (data loaders) inherit its environment and its mappings and are its descendants. A
/// process without a rank is listed only if no rank descends from it: launchers load the libraries as well. Sorted by
/// job, rank and pid.
std::vector<RunningRank> find_ranks(std::span<const RunningProcess> processes);

/// Ranks on this host, from the processes whose environment and mappings may be read.
std::vector<RunningRank> running_ranks(const Procfs& procfs);

/// These processes with their descendants, each as a rank even if its environment gives it none.
std::vector<RunningRank> asked_ranks(const Procfs& procfs, std::span<const pid_t> pids);

/// The descendants of a process, parents before their children.
std::vector<pid_t> descendants_of(const Procfs& procfs, pid_t pid);

}  // namespace stalltrace::cli
