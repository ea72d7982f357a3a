// SPDX-License-Identifier: Apache-2.0
// Mistakes that training scripts make, switched on while the job runs: each is a small file, LAB_BUGS followed by its
// name, whose content says which kind. Nobody but the workload reads them.
#pragma once

#include <string>
#include <string_view>

#include "job.h"

namespace lab::workload {

/// What the file of this mistake holds; empty while there is none.
std::string bug(std::string_view name);

/// Stays away from what comes next as long as the bug `name` is on: "input" waits for a batch that does not
/// come, "compute" goes on computing, "recv" receives from the rank before, which sends nothing. Throws when the job is
/// asked to stop in the meantime.
void stay_away(Job& job, cudaStream_t stream, std::string_view name = "skip");

/// Keeps as many megabytes as the bug "leak" says, and more each step.
void leak_memory();

/// Writes as many megabytes as the bug "disk" says and waits until they are on disk.
void wait_for_disk();

/// One bucket's AllReduce as the bug "mismatch" makes it: "count", "datatype" or "op". False where it makes nothing
/// else of it, and nothing was launched.
bool mismatched_all_reduce(Job& job, void* gradients, cudaStream_t stream);

}  // namespace lab::workload
