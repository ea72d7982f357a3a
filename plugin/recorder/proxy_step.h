// SPDX-License-Identifier: Apache-2.0
// Proxy steps: what a chunk on its way waits for, and for how long. The caller holds the step.
#pragma once

#include "plugin/box/box.h"

namespace stalltrace::plugin {

/// Takes over from the operation what the step's readers need. The step is not published yet.
void join_operation(Box& box, Event& step);

/// From one of NCCL's states to the next. NCCL repeats SendPeerWait as long as it lasts.
void change_wait(Box& box, Event& step, int nccl_state, uint64_t bytes);

/// The step has ended (end_ns): its waits are added to the operation's.
void end_waits(Box& box, Event& step);

}  // namespace stalltrace::plugin
