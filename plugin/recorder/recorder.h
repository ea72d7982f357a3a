// SPDX-License-Identifier: Apache-2.0
// What NCCL reports, independent of the interface's version, goes into the profiler file. Any thread; no allocation,
// no lock, and no system call but one gettid per thread.
#pragma once

#include "plugin/box/box.h"

namespace stalltrace::plugin {

/// An event starts. The caller filled type, parent, rank, channels, flags and what its type has in `u`. The answer is
/// the handle for NCCL: 0 where the event is not recorded.
uint64_t start_event(Box& box, uint64_t context, const Event& draft);

/// NCCL's stopEvent. Handles of events that ended long ago, or of other processes, are counted and nothing else.
void stop_event(Box& box, uint64_t id);

/// What comes with a state; each state uses its own.
struct StateDetail {
  uint64_t bytes = 0;         // of the step, or of the whole operation before v4
  uint64_t gpu_timer_ns = 0;  // KernelChStop
  int32_t appended_ops = 0;
};

/// NCCL's recordEventState; `state` is one of nccl::EventState.
void record_state(Box& box, uint64_t id, int state, const StateDetail& detail);

/// After a fork, in the child: the calling thread has another id.
void forget_thread();

}  // namespace stalltrace::plugin
