// SPDX-License-Identifier: Apache-2.0
// Bugs of training scripts, switched on while the job runs by small files: LAB_BUGS followed by the bug's name, whose
// content gives the kind (script.h reads them, and has those of all practice jobs).
#pragma once

#include <string_view>

#include "job.h"

namespace lab::workload {

/// Skips the following calls while the bug `name` is on: "input" waits for a batch that never comes, "compute"
/// continues computing, "recv" receives from the rank before, which sends nothing. Throws if the job is asked to stop
/// in the meantime.
void stay_away(Job& job, cudaStream_t stream, std::string_view name = "skip");

/// Allocates and keeps as many megabytes as the bug "leak" gives, and more in each step.
void leak_memory();

/// The device computes for as many milliseconds as the bug "device" gives before it goes on with the stream. Returns at
/// once, as a launch does.
void compute_on_device(cudaStream_t stream);

/// One bucket's AllReduce as changed by the bug "mismatch": "count", "datatype" or "op". Returns false and launches
/// nothing if the bug does not change it.
bool mismatched_all_reduce(Job& job, void* gradients, cudaStream_t stream);

}  // namespace lab::workload
