// SPDX-License-Identifier: Apache-2.0
// Groups: between the outermost start and end a thread's calls only note their arguments. The end makes the noted
// communicators, then launches the noted operations, those of one communicator together. A call outside of any group
// is a group of its own. All state belongs to the calling thread.
#pragma once

#include <functional>

#include "nccl.h"
#include "operation.h"

namespace lab::nccl {

ncclResult_t group_start();
/// The first error of anything in the group, when it is the outermost.
ncclResult_t group_end();

/// Checks the arguments and notes the operation. `name` is the public function's, as in "AllReduce".
ncclResult_t enqueue(const char* name, const Operation& operation);

/// Notes work that makes a communicator: done at the end of the group, concurrently with the group's other such work,
/// except that work for the same parent (if any) keeps its order.
ncclResult_t enqueue_init(ncclComm_t parent, std::function<ncclResult_t()> work);

}  // namespace lab::nccl
