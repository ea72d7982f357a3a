// SPDX-License-Identifier: Apache-2.0
// The communicators' table. Made and ended under the plugin's lock; the counters are any thread's.
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

/// What init hands to NCCL as the context: index << 32 | serial, of this process by its tag; never a pointer. With no
/// room left, the context stands for communicator 0.
uint64_t add_communicator(Box& box, const CommunicatorInfo& info);

/// nullptr where the context is of communicator 0, or was made by another process (PXN hands those on).
Communicator* communicator_of(Box& box, uint64_t context);

/// Whether this process made the context.
bool is_context_of(const Box& box, uint64_t context);

/// The serial number in a context, 0 unknown.
uint32_t serial_of(uint64_t context);

void end_communicator(Communicator& communicator);

/// Interface v1 to v3 reports hash and rank with the first event only.
void learn_communicator(Communicator& communicator, uint64_t hash, int32_t rank);

/// Counts the n-th Send or Recv with a peer, from 0; ST_BOX_NUMBER_UNKNOWN where there is no room to count.
uint64_t count_transfer(uint64_t context, bool send, int32_t peer);

/// Forgets all counts; when no communicator is left.
void forget_transfers();

}  // namespace stalltrace::plugin
