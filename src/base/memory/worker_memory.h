// SPDX-License-Identifier: Apache-2.0
// Memory of a worker: a child process that does a part of this program's work beside a job. It may take a part of the
// host's memory, and goes before the job and before its parent where that runs out.
#pragma once

#include <cstdint>

namespace stalltrace {

/// How much memory a worker may have: a quarter of this host's, or of what the cgroup allows, within 1 and 16 GiB.
uint64_t memory_of_a_worker();

/// Limits the address space of the calling process, and of each that it starts, to that much. A lower limit stays.
/// Nothing in a build with sanitizers, whose shadow memory is larger than any limit.
void limit_worker_memory();

/// Where the kernel has to choose, it takes the calling process first, and those that it starts (oom_score_adj 1000).
/// Needs no privilege, but to be called before a change of the user's id: with another one it may no longer.
void go_first_when_memory_runs_out();

}  // namespace stalltrace
