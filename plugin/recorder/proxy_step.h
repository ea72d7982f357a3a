// SPDX-License-Identifier: Apache-2.0
// Proxy steps: the waits of a chunk on its way, and their durations. The caller holds the step.
#pragma once

#include "plugin/box/box.h"

namespace stalltrace::plugin {

/// Copies the fields that a step's readers need from the operation. The step is not published yet.
void join_operation(Box& box, Event& step);

/// Changes from one NCCL state to the next. NCCL repeats SendPeerWait while it lasts.
void change_wait(Box& box, Event& step, int nccl_state, uint64_t bytes);

/// The step has ended (end_ns): its waits are added to the operation's.
void end_waits(Box& box, Event& step);

}  // namespace stalltrace::plugin
