// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The call site of a call: the thread's user stack, sent once for each site.
#ifndef STALLTRACE_STACKS_H
#define STALLTRACE_STACKS_H

#include "arguments.h"
#include "calls_in_flight.h"

#define ST_FRAMES_OF_KEY 3
#define ST_LARGEST_FRAME (1 << 20)

static __always_inline bool is_return_address(u64 address) {
  u8 code[ST_CODE_BYTES];
  return !bpf_probe_read_user(code, sizeof(code), (const void*)(ST_CODE_ADDRESS(address) - sizeof(code))) &&
         st_is_behind_call(code);
}

// The hash of a call site: the height of the stack, the caller, and its callers as far as frame pointers lead. Without
// frame pointers their register may hold any value, so only an address on the stack above the last frame that has a
// return address counts as a frame. Otherwise program data would make every call a new site.
static __always_inline u64 call_site_of(const struct st_registers* registers, u64 return_address) {
  u64 call_site = ST_STACK_POINTER(registers) * 0x9e3779b97f4a7c15 ^ return_address;
  u64 last = ST_STACK_POINTER(registers);
  u64 frame = ST_FRAME_POINTER(registers);
  for (int i = 0; i < ST_FRAMES_OF_KEY; i++) {
    u64 pair[2];  // the caller's frame pointer, its return address
    if (frame <= last || frame - last > ST_LARGEST_FRAME ||
        bpf_probe_read_user(pair, sizeof(pair), (const void*)frame) || !is_return_address(pair[1])) {
      break;
    }
    call_site = (call_site ^ pair[1]) * 0x9e3779b97f4a7c15;
    last = frame;
    frame = pair[0];
  }
  return call_site ?: 1;
}

// This call's site, 0 where its stack found no room. A thread calls from a few sites again and again, so their stacks
// are walked and sent once.
static __always_inline u64 note_call_site(struct pt_regs* ctx, const struct st_registers* registers,
                                          struct call_in_flight* flight, const struct st_process* process, u64 now,
                                          u64 id) {
  const u64 return_address = ST_RETURN_ADDRESS(registers);
  const u64 call_site = call_site_of(registers, return_address);
  const u32 slot = (call_site >> 32) % ST_CALL_SITES;
  if (flight->call_sites[slot] == call_site) {
    return call_site;
  }
  if (!ST_HAS_COLLECTIVE_SHARE(process->user, ST_RECORD_BYTES(sizeof(struct st_call_stack)))) {
    return 0;
  }
  struct st_call_stack* record = bpf_ringbuf_reserve(&collective_ring, sizeof(*record), 0);
  if (!record) {
    count_loss(ST_LOSS_COLLECTIVE);
    return 0;
  }
  fill_header(&record->header, ST_RECORD_CALL_STACK, sizeof(*record), now, id >> 32, (u32)id);
  record->call_site = call_site;
  record->return_address = return_address;
  const long bytes = bpf_get_stack(ctx, record->addresses, sizeof(record->addresses), BPF_F_USER_STACK);
  record->frames = bytes > 0 ? bytes / sizeof(u64) : 0;
  record->padding = 0;
  bpf_ringbuf_submit(record, ST_WAKE_FLAGS(&collective_ring));
  flight->call_sites[slot] = call_site;
  return call_site;
}

#endif
