// SPDX-License-Identifier: Apache-2.0
// Normal phases of training scripts besides steps: ranks warm up, save checkpoints, rank 0 evaluates the model or saves
// it at the end, messages differ in size. All are selected on the command line.
#pragma once

#include <cstddef>

#include "job.h"

namespace lab::workload {

/// Before a step's backward pass: the wait for the device, and in the first steps one-time work (kernels compiled,
/// caches filled), whose duration differs between ranks.
void begin_step(const Job& job, long number);

/// After a step: the checkpoint of all ranks, or rank 0's evaluation, if due.
void end_step(const Job& job, long number);

/// After the last step: rank 0 saves the model.
void end_job(const Job& job);

/// Number of elements of a bucket in this step, the same on all ranks.
size_t bucket_elements(const Options& options, long number, int bucket);

}  // namespace lab::workload
