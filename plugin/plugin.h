// SPDX-License-Identifier: Apache-2.0
// The plugin in one process: its living communicators, and the profiler file that they share. This is the only global
// state, since NCCL does not pass a pointer of ours with every call.
//
// Every function returns success: a failure of ours turns recording off and gives one line in NCCL's log.
#pragma once

#include "plugin/abi/events.h"
#include "plugin/box/box.h"
#include "plugin/box/communicators.h"

namespace stalltrace::plugin {

/// The profiler file while recording, else nullptr. Any thread, on every event.
Box* active_box();

struct InitRequest {
  uint32_t interface_version = 0;
  CommunicatorInfo communicator;
  nccl::Logger logger = nullptr;    // from v4 on
  const void* nccl_code = nullptr;  // an address inside the calling NCCL
};

/// A communicator is made. Returns the mask of events to request from NCCL: 0 if recording is off.
uint32_t start_communicator(const InitRequest& request, uint64_t* context);

/// A communicator is gone; with the last one the file is closed.
void finish_communicator(uint64_t context);

}  // namespace stalltrace::plugin
