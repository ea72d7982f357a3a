// SPDX-License-Identifier: Apache-2.0
#include "plugin/box/slots.h"

#include <cstddef>

#include "plugin/box/ring.h"

namespace stalltrace::plugin {
namespace {

constexpr int kProbesForFree = 8;  // slots examined before one is taken from a collective without further reports
constexpr int kProbes = 64;        // slots examined before the event is dropped
constexpr int kPatience = 200;     // checks of a slot that is being closed, some nanoseconds each
constexpr uint64_t kPartsAndAbandoned = ST_BOX_SLOT_HAD_PARTS | ST_BOX_SLOT_ABANDONED;
constexpr uint64_t kOnePart = 1ULL << ST_BOX_SLOT_PARTS_SHIFT;

uint64_t phase_of(uint64_t commit) { return commit & ST_BOX_PHASE_MASK; }
uint64_t parts_of(uint64_t commit) { return commit >> ST_BOX_SLOT_PARTS_SHIFT & ST_BOX_SLOT_PARTS_MASK; }
uint64_t with_phase(uint64_t commit, uint64_t phase) { return (commit & ~ST_BOX_PHASE_MASK) | phase; }

uint64_t generation_of(uint64_t commit) { return commit >> ST_BOX_SLOT_GENERATION_SHIFT & ST_BOX_SLOT_GENERATION_MASK; }

/// The slot that an id names, even if it now holds another event; nullptr for an id that this file never gave out.
Event* slot_of(Box& box, uint64_t id) {
  const uint64_t index = id & ST_BOX_ID_SLOT_MASK;
  return id >> ST_BOX_ID_TAG_SHIFT == box.tag && index <= box.slot_mask ? &box.slots[index] : nullptr;
}

bool is_of(uint64_t commit, uint64_t id) {
  return generation_of(commit) == (id >> ST_BOX_ID_GENERATION_SHIFT & ST_BOX_SLOT_GENERATION_MASK);
}

uint64_t id_of(const Box& box, uint64_t index, uint64_t generation) {
  return box.tag << ST_BOX_ID_TAG_SHIFT | generation << ST_BOX_ID_GENERATION_SHIFT | index;
}

/// The next generation of a slot that the caller has taken in state `commit`.
Event* renew(Box& box, uint64_t index, uint64_t commit) {
  const uint64_t generation = (generation_of(commit) + 1) & ST_BOX_SLOT_GENERATION_MASK;
  Event& slot = box.slots[index];
  store<uint64_t>(slot.commit, generation << ST_BOX_SLOT_GENERATION_SHIFT | ST_BOX_WRITING);
  std::atomic_thread_fence(std::memory_order_release);  // the claim becomes visible before the data written now
  slot.id = id_of(box, index, generation);
  return &slot;
}

/// Takes a free slot; nullptr if it is in use.
Event* take_free(Box& box, uint64_t index) {
  uint64_t commit = load(box.slots[index].commit);
  const uint64_t phase = phase_of(commit);
  if (phase != ST_BOX_FREE && phase != ST_BOX_QUIET) {
    return nullptr;
  }
  return replace<uint64_t>(box.slots[index].commit, commit, with_phase(commit, ST_BOX_WRITING))
             ? renew(box, index, commit)
             : nullptr;
}

/// Takes the slot of a collective that is enqueued and about which NCCL has reported nothing since.
Event* evict(Box& box, uint64_t index) {
  Event& slot = box.slots[index];
  uint64_t commit = load(slot.commit);
  if (phase_of(commit) != ST_BOX_ENDED || parts_of(commit) != 0 ||
      !replace<uint64_t>(slot.commit, commit, with_phase(commit, ST_BOX_CLOSING))) {
    return nullptr;
  }
  slot.flags |= ST_BOX_UNFINISHED;
  append(box, slot);
  count_loss(box, ST_BOX_LOST_EVICTED);
  return renew(box, index, commit);
}

void make_free(Box& box, Event& slot, uint64_t commit) {
  store<uint64_t>(slot.commit, with_phase(commit, ST_BOX_FREE), std::memory_order_release);
  store<uint64_t>(box.free_hint, static_cast<uint64_t>(&slot - box.slots));
}

bool same_parts(const Event& one, const Event& other) {
  return one.u.coll.ops_ended == load(other.u.coll.ops_ended) &&
         one.u.coll.kernels_ended == load(other.u.coll.kernels_ended);
}

/// Frees a collective whose parts have ended and which only the caller holds; `commit` is its state. False if another
/// holder came in the meantime. Until then it stays open to a late part, so a thread that loses its CPU here delays
/// no other.
bool retire(Box& box, Event& slot, uint64_t& commit) {
  Event copy;
  copy_words(&copy, &slot, sizeof(copy));
  if (!replace<uint64_t>(slot.commit, commit, with_phase(commit, ST_BOX_QUIET) - kOnePart)) {
    return false;
  }
  if (copy.channels != 0 && copy.u.coll.kernels_ended >= copy.channels) {
    copy.flags |= ST_BOX_WHOLE_COLL;
  }
  append(box, copy);
  if (Event* again = same_parts(copy, slot) ? nullptr : hold(box, copy.id)) {  // a holder came and went during the copy
    release(box, *again);
  }
  return true;
}

/// Called by the thread that put a slot into state `commit`, ENDED without a holder. The slot may hold another event by
/// now.
void retire(Box& box, Event& slot, uint64_t commit, bool has_parts) {
  const bool abandoned = (commit & ST_BOX_SLOT_ABANDONED) != 0;
  if (has_parts && !abandoned) {
    return;  // enqueued; its parts are still to come
  }
  if (!replace<uint64_t>(slot.commit, commit, with_phase(commit, ST_BOX_CLOSING))) {
    return;  // another thread holds it briefly, and will call this
  }
  if (abandoned) {
    slot.flags |= ST_BOX_UNFINISHED;
  }
  const bool long_step = slot.type == ST_BOX_PROXY_STEP && (slot.flags & ST_BOX_LONG_STEP) != 0;
  if (long_step || (box.kept_mask >> slot.type & 1) != 0) {
    append(box, slot);
  }
  make_free(box, slot, commit);
}

/// Also sets `flag` in the commit word.
Event* hold_and_mark(Box& box, uint64_t id, uint64_t flag) {
  Event* slot = slot_of(box, id);
  if (slot == nullptr) {
    return nullptr;
  }
  uint64_t commit = load(slot->commit, std::memory_order_acquire);
  for (int look = 0; look < kPatience && is_of(commit, id); ++look) {
    const uint64_t phase = phase_of(commit);
    if (phase == ST_BOX_CLOSING) {
      commit = load(slot->commit, std::memory_order_acquire);
      continue;
    }
    if (phase != ST_BOX_OPEN && phase != ST_BOX_ENDED && phase != ST_BOX_QUIET) {
      return nullptr;
    }
    const uint64_t held_phase = phase == ST_BOX_QUIET ? uint64_t{ST_BOX_ENDED} : phase;
    const uint64_t held = (with_phase(commit, held_phase) + kOnePart) | flag;
    if (replace<uint64_t>(slot->commit, commit, held)) {
      return slot;
    }
  }
  return nullptr;
}

/// Ends an event whose communicator is gone; for a part, also releases its collective. The caller holds it.
void abandon_held(Box& box, Event& slot) {
  uint64_t commit = load(slot.commit);
  while (!replace<uint64_t>(slot.commit, commit, with_phase(commit, ST_BOX_ENDED) | ST_BOX_SLOT_ABANDONED)) {
  }
  const bool is_part = (slot.flags & ST_BOX_COUNTED) != 0 && phase_of(commit) == ST_BOX_OPEN;
  if (Event* whole = is_part ? held_by_part(box, slot.parent) : nullptr) {
    std::atomic_ref(whole->commit).fetch_or(ST_BOX_SLOT_ABANDONED, std::memory_order_acq_rel);
    release(box, *whole);
  }
}

Event* take_any(Box& box) {
  if (load(box.free_hint) != kNoSlot) {
    const uint64_t hint = std::atomic_ref(box.free_hint).exchange(kNoSlot, std::memory_order_relaxed);
    if (Event* slot = hint != kNoSlot ? take_free(box, hint) : nullptr) {
      return slot;
    }
  }
  for (int probe = 0; probe < kProbes; ++probe) {
    const uint64_t index = add<uint64_t>(box.header->slot_cursor, 1) & box.slot_mask;
    Event* slot = take_free(box, index);
    if (slot == nullptr && probe >= kProbesForFree) {
      slot = evict(box, index);
    }
    if (slot != nullptr) {
      return slot;
    }
  }
  return nullptr;
}

}  // namespace

Event* claim(Box& box, const Event& initial) {
  constexpr size_t kBody = offsetof(Event, parent);
  Event* slot = take_any(box);
  if (slot == nullptr) {
    count_loss(box, ST_BOX_LOST_NO_SLOT);
    return nullptr;
  }
  copy_words(&slot->parent, &initial.parent, sizeof(Event) - kBody);
  return slot;
}

void publish(Event& slot) {
  store<uint64_t>(slot.commit, with_phase(load(slot.commit), ST_BOX_OPEN), std::memory_order_release);
}

Event* hold(Box& box, uint64_t id) { return hold_and_mark(box, id, 0); }

Event* hold_for_part(Box& box, uint64_t id) { return hold_and_mark(box, id, ST_BOX_SLOT_HAD_PARTS); }

Event* held_by_part(Box& box, uint64_t id) {
  Event* slot = slot_of(box, id);
  if (slot == nullptr) {
    return nullptr;
  }
  const uint64_t commit = load(slot->commit, std::memory_order_acquire);
  return is_of(commit, id) && parts_of(commit) != 0 ? slot : nullptr;
}

void release(Box& box, Event& slot) {
  const bool has_parts = goes_on_in_parts(slot);  // the slot may hold another event once it is released
  uint64_t commit = load(slot.commit, std::memory_order_acquire);
  while (true) {
    const bool last = phase_of(commit) == ST_BOX_ENDED && parts_of(commit) == 1;
    const bool retires = last && has_parts && (commit & kPartsAndAbandoned) == ST_BOX_SLOT_HAD_PARTS;
    if (retires ? retire(box, slot, commit) : replace<uint64_t>(slot.commit, commit, commit - kOnePart)) {
      if (last && !retires) {
        retire(box, slot, commit - kOnePart, has_parts);
      }
      return;
    }
  }
}

Event* end(Box& box, uint64_t id) {
  Event* slot = slot_of(box, id);
  if (slot == nullptr) {
    count_loss(box, ST_BOX_LOST_FOREIGN_HANDLE);
    return nullptr;
  }
  uint64_t commit = load(slot->commit, std::memory_order_acquire);
  while (is_of(commit, id) && phase_of(commit) == ST_BOX_OPEN) {
    if (replace<uint64_t>(slot->commit, commit, with_phase(commit, ST_BOX_ENDED) + kOnePart)) {
      return slot;
    }
  }
  count_loss(box, ST_BOX_LOST_STALE_HANDLE);
  return nullptr;
}

void abandon(Box& box, uint32_t communicator) {
  for (const bool collectives : {false, true}) {  // parts before their collective
    for (uint64_t index = 0; index <= box.slot_mask; ++index) {
      const uint64_t commit = load(box.slots[index].commit, std::memory_order_acquire);
      const bool in_use = phase_of(commit) == ST_BOX_OPEN || phase_of(commit) == ST_BOX_ENDED;
      Event* slot = in_use ? hold(box, id_of(box, index, generation_of(commit))) : nullptr;
      if (slot == nullptr) {
        continue;
      }
      if (slot->communicator == communicator && is_collective(*slot) == collectives) {
        abandon_held(box, *slot);
      }
      release(box, *slot);
    }
  }
}

}  // namespace stalltrace::plugin
