// SPDX-License-Identifier: Apache-2.0
// The two things the workload can do with its communicator.
#pragma once

#include "job.h"

namespace lab::workload {

/// Steps like those of data-parallel training. Prints this rank's throughput at the end.
void train(Job& job);

/// Small AllReduces, paced or flat out. Prints one JSON line.
void run_calls(Job& job);

}  // namespace lab::workload
