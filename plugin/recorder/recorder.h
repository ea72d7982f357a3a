// SPDX-License-Identifier: Apache-2.0
// Writes NCCL's reports, independent of the interface's version, into the profiler file. Any thread; no allocation, no
// lock, and no system call but one gettid per thread.
#pragma once

#include "plugin/box/box.h"

namespace stalltrace::plugin {

/// Starts an event. The caller has set type, parent, rank, channels, flags and its type's part of `u`. Returns the
/// handle for NCCL: 0 if the event is not recorded.
uint64_t start_event(Box& box, uint64_t context, const Event& initial);

/// NCCL's stopEvent. Handles of events that ended long ago, or of other processes, are only counted.
void stop_event(Box& box, uint64_t id);

/// Details of a state; each state uses its own.
struct StateDetail {
  uint64_t bytes = 0;         // of the step, or of the whole operation before v4
  uint64_t gpu_timer_ns = 0;  // KernelChStop
  int32_t appended_ops = 0;
};

/// NCCL's recordEventState; `state` is one of nccl::EventState.
void record_state(Box& box, uint64_t id, int state, const StateDetail& detail);

/// Called in the child of a fork, where the calling thread has another id.
void forget_thread();

}  // namespace stalltrace::plugin
