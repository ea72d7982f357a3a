// SPDX-License-Identifier: Apache-2.0
// The mapped profiler file (plugin/wire/blackbox.h), shared by all code here. box_file makes and ends it; any thread
// may use it in between.
#pragma once

#include "plugin/box/field.h"
#include "plugin/wire/blackbox.h"

namespace stalltrace::plugin {

using Event = st_box_event;
using Communicator = st_box_communicator;

inline constexpr uint64_t kNoSlot = UINT64_MAX;

struct Box {
  st_box_header* header = nullptr;
  Communicator* communicators = nullptr;
  Event* slots = nullptr;
  Event* ring = nullptr;
  uint64_t slot_mask = 0;
  uint64_t ring_mask = 0;
  uint64_t given_back = 0;        // offset of the ring's tail that is not the file's while it is closed; 0: none
  uint64_t tag = 0;               // header->process_tag
  uint32_t kept_mask = 0;         // 1 << st_box_type
  bool kernels_reported = false;  // NCCL reports kernel channels
  int fd = -1;                    // holds the lock that shows that the writer lives
  alignas(64) uint64_t free_hint = kNoSlot;  // a slot that was freed recently; its cache lines are warm
};

inline void count_loss(Box& box, st_box_loss reason) { add<uint64_t>(box.header->lost[reason], 1); }

inline bool is_collective(const Event& event) { return event.type == ST_BOX_COLL || event.type == ST_BOX_P2P; }

/// True for an event that continues after NCCL has stopped it, until its parts have ended.
inline bool goes_on_in_parts(const Event& event) { return is_collective(event) && st_box_is_own_transfer(&event) == 0; }

}  // namespace stalltrace::plugin
