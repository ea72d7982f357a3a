// SPDX-License-Identifier: Apache-2.0
// The table of communicators. Entries are made and ended under the plugin's lock; any thread may change the counters.
#pragma once

#include "plugin/box/box.h"

namespace stalltrace::plugin {

struct CommunicatorInfo {
  uint64_t hash = 0;
  const char* name = nullptr;
  int32_t rank = -1;
  int32_t ranks = 0;
  int32_t nodes = 0;
};

/// Returns the context that init gives to NCCL: index << 32 | serial, with this process's tag; never a pointer. Without
/// room, the context stands for communicator 0.
uint64_t add_communicator(Box& box, const CommunicatorInfo& info);

/// nullptr for the context of communicator 0 or of another process (PXN passes those on).
Communicator* communicator_of(Box& box, uint64_t context);

/// Whether this process made the context.
bool is_context_of(const Box& box, uint64_t context);

/// The serial number in a context; 0 unknown.
uint32_t serial_of(uint64_t context);

void end_communicator(Communicator& communicator);

/// Sets hash and rank, which interface v1 to v3 reports only with the first event.
void learn_communicator(Communicator& communicator, uint64_t hash, int32_t rank);

/// Counts Sends or Recvs with a peer; returns this one's number, from 0, or ST_BOX_NUMBER_UNKNOWN without room to
/// count.
uint64_t count_transfer(uint64_t context, bool send, int32_t peer);

/// Resets all counts, when no communicator is left.
void forget_transfers();

}  // namespace stalltrace::plugin
