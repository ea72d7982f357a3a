// SPDX-License-Identifier: Apache-2.0
// Reports to a tracer that probes the marker (plugin/wire/marker.h) the communicator, channel and peer of the bytes
// that this thread has just moved. Without a tracer it only reads the semaphore. Any thread.
#pragma once

#include "plugin/box/box.h"
#include "plugin/wire/marker.h"

namespace stalltrace::plugin {

/// NCCL has just found this step's bytes moved. The caller holds the step; its transferred_bytes are set.
void report_step_moved(Box& box, const Event& step);

/// Fills in the report of this step for the tracer that raised the semaphore to this value; false if there is nothing
/// to report. Counts the step.
bool describe_step(const Box& box, const Event& step, uint16_t semaphore, st_step_moved& moved);

/// Counts the operations of a direction under way: while there is only one, all transferred bytes are its own. `now` 0:
/// unknown.
void count_operation_start(bool is_send, uint64_t now);
void count_operation_end(bool is_send, uint64_t now);

/// Called when no communicator is left, and in the child of a fork.
void forget_connections();

}  // namespace stalltrace::plugin
