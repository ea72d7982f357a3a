// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The calls that a program makes to wait for asynchronous ones: those of the GPU runtime, and MPI's waits for requests.
#ifndef STALLTRACE_SYNCHRONISATION_H
#define STALLTRACE_SYNCHRONISATION_H

#include "arguments.h"
#include "calls_in_flight.h"

// Later than this after a process's last collective call, its synchronisation calls are nobody's completion.
#define SYNC_INTEREST_NS (60ULL * 1000000000ULL)

// The requests that a thread's wait is for: a copy, since the library overwrites those that are done. With the thread,
// not in a hash table: programs poll MPI_Testall. A single request needs no copy, it is noted with the call.
struct waited_requests {
  union {
    u64 pointers[ST_MAX_REQUESTS];
    u32 ints[ST_MAX_REQUESTS];
  } handle;
  u32 index[ST_MAX_REQUESTS];  // of those that are done, as the call says
  u32 count;
  u32 padding;
};
struct {
  __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, int);
  __type(value, struct waited_requests);
} waits SEC(".maps");

static __always_inline void note_requests(const struct st_arguments* arguments,
                                          const volatile struct st_call_spec* spec, struct call_in_flight* flight,
                                          struct task_struct* task) {
  if (spec->kind == ST_CALL_WAIT_REQUEST) {
    flight->event = handle_at(flight->requests, flight->int_handles);
    return;
  }
  struct waited_requests* waited = bpf_task_storage_get(&waits, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
  if (!waited) {
    count_loss(ST_LOSS_THREAD_STATE);
    return;
  }
  u32 count = (u32)argument(arguments, spec->count);
  count = count < ST_MAX_REQUESTS ? count : ST_MAX_REQUESTS;
  waited->count = count;
  const u32 bytes = flight->int_handles ? count * sizeof(u32) : count * sizeof(u64);
  bpf_probe_read_user(&waited->handle, bytes & (2 * sizeof(waited->handle) - 1), (const void*)flight->requests);
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

// The calls that were polled in vain are most of them.
static __always_inline bool found_nothing(const struct call_in_flight* flight) {
  return flight->done_address && !user_u32(flight->done_address, 0);
}

// Those of the requests waited for that the call says are done, a bit for each.
static __always_inline u64 done_requests(const volatile struct st_call_spec* spec, const struct call_in_flight* flight,
                                         struct waited_requests* waited) {
  if (spec->kind == ST_CALL_WAIT_ANY_REQUEST) {
    const u32 index = user_u32(flight->out_address, ST_MAX_REQUESTS);
    return index < ST_MAX_REQUESTS ? 1ULL << index : 0;  // beyond: MPI_UNDEFINED, there was nothing to wait for
  }
  if (spec->kind != ST_CALL_WAIT_SOME_REQUESTS) {
    return ~0ULL;
  }
  u32 count = user_u32(flight->done_address, 0);
  if ((s32)count < 0) {  // MPI_UNDEFINED
    return 0;
  }
  count = count < ST_MAX_REQUESTS ? count : ST_MAX_REQUESTS;
  bpf_probe_read_user(waited->index, count * sizeof(u32) & (2 * sizeof(waited->index) - 1),
                      (const void*)flight->indices_address);
  u64 done = 0;
  for (u32 i = 0; i < ST_MAX_REQUESTS && i < count; i++) {
    const u32 index = waited->index[i];
    done |= index < ST_MAX_REQUESTS ? 1ULL << (index & (ST_MAX_REQUESTS - 1)) : 0;
  }
  return done;
}

// A request that was done before is MPI_REQUEST_NULL before and after: nobody's end, however often it is polled.
static __always_inline bool still_the_same(const struct call_in_flight* flight, u32 i, u64 request) {
  const u64 size = flight->int_handles ? sizeof(u32) : sizeof(u64);
  return handle_at(flight->requests + i * size, flight->int_handles) == request;
}

static __always_inline void emit_waits(const volatile struct st_call_spec* spec, const struct call_in_flight* flight,
                                       const struct st_process* process, struct task_struct* task, s32 return_code,
                                       u64 now, u64 id) {
  if (spec->kind == ST_CALL_WAIT_REQUEST) {
    if (!still_the_same(flight, 0, flight->event)) {
      emit_sync(spec, flight, process, flight->event, return_code, now, id);
    }
    return;
  }
  struct waited_requests* waited = bpf_task_storage_get(&waits, task, 0, 0);
  if (!waited) {
    return;
  }
  const u64 done = done_requests(spec, flight, waited);
  for (u32 i = 0; i < ST_MAX_REQUESTS && i < waited->count; i++) {
    const u64 request = flight->int_handles ? waited->handle.ints[i] : waited->handle.pointers[i];
    if (done >> i & 1 && !still_the_same(flight, i, request)) {
      emit_sync(spec, flight, process, request, return_code, now, id);
    }
  }
}

#endif
