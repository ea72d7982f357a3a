// SPDX-License-Identifier: Apache-2.0
// Tells a tracer, where one probes the marker (plugin/wire/marker.h), which communicator, channel and peer the bytes
// belong to that this thread has just moved. Without one it costs a look at the semaphore. Any thread.
#pragma once

#include "plugin/box/box.h"
#include "plugin/wire/marker.h"

namespace stalltrace::plugin {

/// NCCL has just found the bytes of this step moved. The caller holds it; its transferred_bytes are set.
void tell_step_moved(Box& box, const Event& step);

/// What there is to tell of this step to whoever raised the semaphore to this; false for nothing. Counts it.
bool describe_step(const Box& box, const Event& step, uint16_t semaphore, st_step_moved& moved);

/// How many operations of a direction are under way: where there is one, whatever is moved is its. `now` 0: unknown.
void count_operation_start(bool is_send, uint64_t now);
void count_operation_end(bool is_send, uint64_t now);

/// When no communicator is left, and in the child of a fork.
void forget_connections();

}  // namespace stalltrace::plugin
