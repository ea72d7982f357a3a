// SPDX-License-Identifier: Apache-2.0
// The memory of a process that holds what it allocated and wrote.
#pragma once

#include <sys/types.h>

#include <vector>

#include "base/process/procfs.h"
#include "base/result.h"
#include "stacks/nccl/find_communicators.h"

namespace stalltrace::stacks {

struct WrittenMemory {
  std::vector<MemoryRange> ranges;
  bool whole = true;  // all of the process's mappings were looked through, and their pages are within the bounds
};

/// Private anonymous memory whose pages are in RAM. Reading any other page would have the kernel make one for the
/// process, or load it from swap. Of the smallest mappings first: libraries' own data lie in those, a program's arrays
/// in large ones. `bounds`: of the pages that are found, and of the time to find them. Errors: those of opening the
/// process's maps and pagemap.
Result<WrittenMemory> written_memory(const Procfs& procfs, pid_t pid, SearchBounds bounds = {});

}  // namespace stalltrace::stacks
