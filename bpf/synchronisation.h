// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The calls that a program makes to wait for asynchronous ones: those of the GPU runtime, and MPI's waits for requests.
#ifndef STALLTRACE_SYNCHRONISATION_H
#define STALLTRACE_SYNCHRONISATION_H

#include "arguments.h"
#include "calls_in_flight.h"

// Later than this after a process's last collective call, its synchronisation calls are nobody's completion.
#define SYNC_INTEREST_NS (60ULL * 1000000000ULL)

// What a thread's MPI_Wait or its like waits for.
struct waited_requests {
  u64 request[ST_MAX_REQUESTS];
  u32 count;
  u32 padding;
};
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 4096);
  __type(key, u32);  // tid
  __type(value, struct waited_requests);
} waits SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, struct waited_requests);
} waits_scratch SEC(".maps");

// Notes the requests that a wait is for: it overwrites them when they are done.
static __always_inline void note_requests(const struct st_arguments* arguments,
                                          const volatile struct st_call_spec* spec, u32 tid) {
  const u32 zero = 0;
  struct waited_requests* waited = bpf_map_lookup_elem(&waits_scratch, &zero);
  if (!waited) {
    return;
  }
  const u32 count = spec->count ? (u32)argument(arguments, spec->count) : 1;
  waited->count = count < ST_MAX_REQUESTS ? count : ST_MAX_REQUESTS;
  bpf_probe_read_user(waited->request, waited->count * sizeof(u64) & (2 * sizeof(waited->request) - 1),
                      (const void*)argument(arguments, spec->request));
  if (bpf_map_update_elem(&waits, &tid, waited, BPF_ANY)) {
    count_loss(ST_LOSS_THREAD_STATE);
  }
}

static __always_inline void emit_sync(const volatile struct st_call_spec* spec, const struct call_in_flight* flight,
                                      const struct st_process* process, u64 event, s32 return_code, u64 now, u64 id) {
  const u64 last_call_ns = process->last_call_ns;
  if (!last_call_ns || (flight->entry_ns > last_call_ns && flight->entry_ns - last_call_ns > SYNC_INTEREST_NS)) {
    return;  // by its entry: the longest stall is the one whose synchronisation returns late
  }
  struct st_sync* record = bpf_ringbuf_reserve(&collective_ring, sizeof(*record), 0);
  if (!record) {
    count_loss(ST_LOSS_COLLECTIVE);
    return;
  }
  fill_header(&record->header, ST_RECORD_SYNC, sizeof(*record), now, id >> 32, (u32)id);
  record->entry_ns = flight->entry_ns;
  record->stream = flight->stream;
  record->event = event;
  record->last_net_ns = last_collective_byte(process);
  record->net_bytes = process->net_bytes;
  record->return_code = return_code;
  record->row = flight->row;
  record->kind = spec->kind;
  bpf_ringbuf_submit(record, ST_WAKE_FLAGS(&collective_ring));
}

static __always_inline void emit_waits(const volatile struct st_call_spec* spec, const struct call_in_flight* flight,
                                       const struct st_process* process, s32 return_code, u64 now, u64 id) {
  const u32 tid = (u32)id;
  const struct waited_requests* waited = bpf_map_lookup_elem(&waits, &tid);
  if (!waited) {
    return;
  }
  s32 only = -1;
  if (spec->kind == ST_CALL_WAIT_ANY_REQUEST) {
    bpf_probe_read_user(&only, sizeof(only), (const void*)flight->out_address);
    if (only < 0) {
      return;  // MPI_UNDEFINED: there was nothing to wait for
    }
  }
  for (u32 i = 0; i < ST_MAX_REQUESTS && i < waited->count; i++) {
    if (only < 0 || i == (u32)only) {
      emit_sync(spec, flight, process, waited->request[i], return_code, now, id);
    }
  }
}

#endif
