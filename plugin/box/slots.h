// SPDX-License-Identifier: Apache-2.0
// The events that have not ended: a fixed table in the file, so that they outlive the process. Any thread; no locks.
//
// An event's handle is its id, slot and generation in one word; nothing is ever looked up through a pointer that
// somebody handed in. All of a slot's life is in its commit word (st_box_phase): who changes a field of an open slot
// holds the slot in the meantime, and a held slot is not given to another event. What holds a collective longer is an
// open part of it.
//
//   FREE -> WRITING -> OPEN -> ENDED -> CLOSING -> FREE         CLOSING: being copied to the ring
//   a collective:              ENDED -> QUIET                   QUIET: in the ring; free for the next event
//   and for a late part:       ENDED <- QUIET
#pragma once

#include "plugin/box/box.h"

namespace stalltrace::plugin {

/// A slot for a new event, which begins as a copy of `draft` with an id of its own; nullptr where every slot is taken.
/// Nobody else sees it before it is published.
Event* claim(Box& box, const Event& draft);
void publish(Event& slot);

/// The event if it has not left its slot, held until it is released; nullptr otherwise.
Event* hold(Box& box, uint64_t id);

/// The same on behalf of a part that starts: the collective is not over before held_by_part is released at the part's
/// end.
Event* hold_for_part(Box& box, uint64_t id);

/// The event hold_for_part held; nullptr where it did not.
Event* held_by_part(Box& box, uint64_t id);

/// The last holder of an ended event puts it into the ring, if it is of a kind that is kept.
void release(Box& box, Event& slot);

/// Marks the event as ended and holds it; nullptr where it is not open: then it was counted why.
Event* end(Box& box, uint64_t id);

/// Ends everything of a communicator that is still in a slot, UNFINISHED. For a communicator that exists no more.
void abandon(Box& box, uint32_t communicator);

}  // namespace stalltrace::plugin
