// SPDX-License-Identifier: Apache-2.0
// A live host → a Snapshot. Reads /proc, process memory, the kernel's lists of sockets and samples of running threads:
// no process is stopped, and nothing is written to any.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "autopsy/snapshot.h"
#include "base/process/procfs.h"

namespace stalltrace::autopsy {

/// A rank to read.
struct RankToRead {
  std::string node;  // name of this host
  pid_t pid = 0;
  std::optional<int32_t> rank;
  std::string job;
  std::optional<std::string> launcher_job;  // RankState
};

/// The ranks' states now; takes some tenths of a second for a node's ranks. A rank that has ended since is left out.
/// Without `before`, an earlier snapshot, memory is searched for NCCL's communicators, which takes two
/// seconds for a rank at most; with it, those that were found then are read again.
Snapshot take_snapshot(const Procfs& procfs, std::span<const RankToRead> ranks, const Snapshot* before = nullptr);

}  // namespace stalltrace::autopsy
