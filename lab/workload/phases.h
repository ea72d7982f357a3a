// SPDX-License-Identifier: Apache-2.0
// What training scripts do besides stepping, and that is no fault: the ranks warm up, save checkpoints, the first one
// evaluates the model or saves it at the end, messages differ in size. All of it is asked for on the command line.
#pragma once

#include <cstddef>

#include "job.h"

namespace lab::workload {

/// Before a step's backward pass: the wait for the device, and in the first steps what is made once (kernels compiled,
/// caches filled), which takes each rank its own time.
void begin_step(const Job& job, long number);

/// After a step: the checkpoint of all ranks, or an evaluation by rank 0, when it is time for one.
void end_step(const Job& job, long number);

/// After the last step: rank 0 saves the model.
void end_job(const Job& job);

/// Elements of a bucket in this step, the same on all ranks.
size_t bucket_elements(const Options& options, long number, int bucket);

/// Writes so many megabytes to a file of this rank and waits until they are on disk.
void write_to_disk(const char* name, long megabytes);

}  // namespace lab::workload
