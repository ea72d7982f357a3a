// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Where in the program a call is made: the thread's user stack, kept once by content.
#ifndef STALLTRACE_STACKS_H
#define STALLTRACE_STACKS_H

#include "arguments.h"
#include "calls_in_flight.h"

struct {
  __uint(type, BPF_MAP_TYPE_STACK_TRACE);
  __uint(max_entries, 8192);
  __uint(key_size, sizeof(u32));
  __uint(value_size, ST_STACK_FRAMES * sizeof(u64));
} stacks SEC(".maps");

// The number of the calling thread's stack in `stacks`, negative where it has none. A thread calls from a few places
// again and again, and walking its stack costs as much as the rest of a call's record: a call with the same return
// address at the same height of the stack as one before is taken to come from the same place.
static __always_inline s32 calling_stack(struct pt_regs* ctx, u64 stack_pointer, u64 return_address,
                                         struct call_in_flight* flight) {
  const u64 place = stack_pointer * 0x9e3779b97f4a7c15 ^ return_address;
  const u32 slot = (place >> 32 ^ place) % ST_PLACES;
  if (flight->places[slot] == place) {
    return flight->stacks[slot];
  }
  const s32 stack = (s32)bpf_get_stackid(ctx, &stacks, BPF_F_USER_STACK);
  flight->places[slot] = place;
  flight->stacks[slot] = stack;
  return stack;
}

#endif
