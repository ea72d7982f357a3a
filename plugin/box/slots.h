// SPDX-License-Identifier: Apache-2.0
// The events that have not ended: a fixed table in the file, so that they outlive the process. Any thread; no locks.
//
// An event's handle is its id, slot and generation in one word; no pointer from a caller is ever dereferenced. A slot's
// commit word holds its whole state (st_box_phase): a thread holds an open slot while it changes a field, and a held
// slot is not given to another event. An open part holds its collective for longer.
//
//   FREE -> WRITING -> OPEN -> ENDED -> CLOSING -> FREE         CLOSING: being copied to the ring
//   a collective:              ENDED -> QUIET                   QUIET: in the ring; free for the next event
//   and for a late part:       ENDED <- QUIET
#pragma once

#include "plugin/box/box.h"

namespace stalltrace::plugin {

/// Claims a slot for a new event, which starts as a copy of `initial` with its own id; nullptr if every slot is taken.
/// No other thread sees it before it is published.
Event* claim(Box& box, const Event& initial);
void publish(Event& slot);

/// The event if it is still in its slot, held until it is released; nullptr otherwise.
Event* hold(Box& box, uint64_t id);

/// The same for a part that starts: the collective stays open until held_by_part is released at the part's end.
Event* hold_for_part(Box& box, uint64_t id);

/// The event held by hold_for_part; nullptr if it is not.
Event* held_by_part(Box& box, uint64_t id);

/// Releases an event. The last holder of an ended event puts it into the ring, if its type is kept.
void release(Box& box, Event& slot);

/// Marks the event as ended and holds it; nullptr if it is not open, which is then counted with the reason.
Event* end(Box& box, uint64_t id);

/// Ends all events of a communicator that are still in a slot, as UNFINISHED, when the communicator no longer exists.
void abandon(Box& box, uint32_t communicator);

}  // namespace stalltrace::plugin
