// SPDX-License-Identifier: Apache-2.0
// Checks of the host itself: shared memory, limits, CPUs, clock, the kernel's network settings and losses.
#pragma once

#include <cstdint>
#include <optional>

#include "preflight/host_check.h"

namespace stalltrace::preflight {

/// What the kernel says of this process, not in a file.
struct ProcessLimits {
  uint64_t shared_memory_bytes = 0;  // size of /dev/shm; 0: there is none
  uint64_t shared_memory_free_bytes = 0;
  std::optional<uint64_t> locked_memory_bytes;  // RLIMIT_MEMLOCK; nullopt: no limit, or CAP_IPC_LOCK
  int allowed_cpus = 0;                         // by its affinity; 0: unknown
  int online_cpus = 0;
  bool clock_synchronized = false;
};
/// Of the calling process. Never fails: what can't be read keeps its initial value.
ProcessLimits read_limits();

/// What the job will use of it.
struct HostUse {
  bool rdma = false;  // InfiniBand or RoCE, whose buffers are locked in memory
  bool shared_memory = true;
  bool process_limits = true;  // those of this process are what the job's will have
};

/// Adds a row to `report` for each check of docs/preflight.md that is of the host. Never fails: a file that is missing,
/// or not in its documented form, adds no row.
void check_host(const ProcessLimits& limits, HostUse use, const HostFiles& files, HostReport& report);

}  // namespace stalltrace::preflight
