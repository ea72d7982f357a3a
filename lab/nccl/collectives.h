// SPDX-License-Identifier: Apache-2.0
// The ring algorithms: an operation's schedule for one rank, which sends to rank + 1 and receives from rank - 1.
#pragma once

#include "operation.h"
#include "schedule.h"

namespace lab::nccl {

/// For every function except Send and Recv. The schedule points into the operation's buffers and into `scratch`.
Schedule ring_schedule(const Operation& operation, int rank, int nranks, Scratch& scratch);

}  // namespace lab::nccl
