// SPDX-License-Identifier: Apache-2.0
// The plugin in one process: which communicators live, and the profiler file they share. The one thing here that is
// global, since NCCL hands out no pointer of ours on every call.
//
// Everything answers success whatever happens: a failure of ours turns recording off and is one line of NCCL's log.
#pragma once

#include "plugin/abi/events.h"
#include "plugin/box/box.h"
#include "plugin/box/communicators.h"

namespace stalltrace::plugin {

/// The profiler file while recording, else nullptr. Any thread, every event.
Box* active_box();

struct InitRequest {
  uint32_t interface_version = 0;
  CommunicatorInfo communicator;
  nccl::Logger logger = nullptr;    // from v4 on
  const void* nccl_code = nullptr;  // some address inside the NCCL that calls
};

/// A communicator is made. The mask of events to ask NCCL for: 0 where recording is off.
uint32_t start_communicator(const InitRequest& request, uint64_t* context);

/// A communicator is gone; with the last one the file is closed.
void finish_communicator(uint64_t context);

}  // namespace stalltrace::plugin
