// SPDX-License-Identifier: Apache-2.0
// Groups: between the outermost start and end, a thread's calls only record their arguments. The end makes the recorded
// communicators, then launches the recorded operations, those of one communicator together. A call outside of any group
// is a group of its own. All state belongs to the calling thread.
#pragma once

#include <functional>

#include "nccl.h"
#include "operation.h"

namespace lab::nccl {

ncclResult_t group_start();
/// At the outermost level, returns the first error of anything in the group.
ncclResult_t group_end();

/// Validates the arguments and records the operation. `name` is the public function's, as in "AllReduce".
ncclResult_t enqueue(const char* name, const Operation& operation);

/// Records work that makes a communicator: done at the end of the group, concurrently with the group's other such work,
/// except that work for the same parent keeps its order.
ncclResult_t enqueue_init(ncclComm_t parent, std::function<ncclResult_t()> work);

}  // namespace lab::nccl
