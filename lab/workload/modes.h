// SPDX-License-Identifier: Apache-2.0
// The two modes of the workload.
#pragma once

#include "job.h"

namespace lab::workload {

/// Steps like those of data-parallel training. Prints this rank's throughput at the end.
void train(Job& job);

/// Small AllReduces, paced or without a pause. Prints one JSON line.
void run_calls(Job& job);

}  // namespace lab::workload
