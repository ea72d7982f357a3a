// SPDX-License-Identifier: Apache-2.0
// Reports to a tracer that probes the marker (plugin/wire/marker.h) which communicator, channel and peer the bytes
// belong to that this thread has just moved. Without one it costs a look at the semaphore. Any thread.
#pragma once

#include "plugin/box/box.h"
#include "plugin/wire/marker.h"

namespace stalltrace::plugin {

/// NCCL has just found the bytes of this step moved. The caller holds it; its transferred_bytes are set.
void report_step_moved(Box& box, const Event& step);

/// Fills in what is to be reported about this step to the tracer that raised the semaphore to this value; false:
/// nothing. Counts the step.
bool describe_step(const Box& box, const Event& step, uint16_t semaphore, st_step_moved& moved);

/// How many operations of a direction are under way: where there is one, whatever is moved is its. `now` 0: unknown.
void count_operation_start(bool is_send, uint64_t now);
void count_operation_end(bool is_send, uint64_t now);

/// When no communicator is left, and in the child of a fork.
void forget_connections();

}  // namespace stalltrace::plugin
