// SPDX-License-Identifier: Apache-2.0
// The jobs that run on this host now, found without tracing: their ranks, and the processes that descend from each.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/process/procfs.h"
#include "capture/discover/identity.h"

namespace stalltrace::cli {

/// A process of this host, as far as a job's place for it depends on it.
struct RunningProcess {
  pid_t pid = 0;
  pid_t parent = 0;
  capture::JobIdentity identity;  // from its environment, which children inherit
  bool python = false;
  bool collective_library = false;  // maps one
};

/// A rank with its descendants; or a process that uses a collective library and whose rank is not known.
struct RunningRank {
  pid_t pid = 0;
  std::optional<int32_t> rank;
  std::string job;
  std::vector<pid_t> descendants;  // parents before their children
};

/// Pure. A rank is the first of its line of descent that has its identity and is Python or uses a collective library:
/// what it starts inherits its environment and its mappings (data loaders do) and is its descendant. A process without
/// a rank is one by itself only where no rank descends from it: launchers load the libraries too. In order of job, rank
/// and number.
std::vector<RunningRank> find_ranks(std::span<const RunningProcess> processes);

/// Of this host: those whose environment and mappings may be read.
std::vector<RunningRank> running_ranks(const Procfs& procfs);

/// The processes that descend from one, parents before their children.
std::vector<pid_t> descendants_of(const Procfs& procfs, pid_t pid);

}  // namespace stalltrace::cli
