// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The calls with which a program waits for asynchronous ones: the GPU runtime's, and MPI's waits for requests.
#ifndef STALLTRACE_SYNCHRONISATION_H
#define STALLTRACE_SYNCHRONISATION_H

#include "arguments.h"
#include "calls_in_flight.h"

// Synchronisation calls later than this after a process's last collective call complete nothing.
#define SYNC_INTEREST_NS (60ULL * 1000000000ULL)
// Programs launch up to thousands of graphs a second: one record counts those of this time.
#define GRAPH_LAUNCHES_NS (10ULL * 1000000ULL)

// The requests that a thread waits for: a copy, since the library overwrites those that are done. Stored by thread, not
// in a table by request, since programs poll MPI_Testall. A single request is stored with the call and needs no copy.
union request_handles {
  u64 pointers[ST_MAX_REQUESTS];
  u32 ints[ST_MAX_REQUESTS];
};
struct waited_requests {
  struct st_requests_done record;  // its handles as they were at entry
  union request_handles after;     // ... and at return
  u32 index[ST_MAX_REQUESTS];      // of those that are done, from the call's result
};
ST_STATIC_ASSERT(sizeof(struct waited_requests) <= ST_LARGEST_STATE, "first value");
ST_STATIC_ASSERT(sizeof(union request_handles) == sizeof(((struct st_requests_done*)0)->handles), "same handles");
ST_TASK_STATE(waits, struct waited_requests);
ST_STATE_BY_NUMBER(waits_by_tid, struct waited_requests, 4096);

static __always_inline struct waited_requests* waits_of(struct task_struct* task, u32 tid, bool make) {
  if (config.task_storage) {
    return bpf_task_storage_get(&waits, task, 0, make ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
  }
  return state_by_number(&waits_by_tid, tid, make);
}

static __always_inline u64 bytes_of_handles(u64 count, bool ints) {
  return at_most(count * (ints ? sizeof(u32) : sizeof(u64)), sizeof(union request_handles));
}

static __always_inline void note_requests(const struct st_arguments* arguments,
                                          const volatile struct st_call_spec* spec, struct call_in_flight* flight,
                                          struct task_struct* task, u32 tid) {
  if (spec->kind == ST_CALL_WAIT_REQUEST) {
    flight->event = handle_at(flight->requests, flight->int_handles);
    return;
  }
  struct waited_requests* waited = waits_of(task, tid, true);
  if (!waited) {
    count_loss(ST_LOSS_THREAD_STATE);
    return;
  }
  u32 count = (u32)argument(arguments, spec->count);
  count = count < ST_MAX_REQUESTS ? count : ST_MAX_REQUESTS;
  waited->record.count = count;
  bpf_probe_read_user(waited->record.handles, bytes_of_handles(count, flight->int_handles),
                      (const void*)flight->requests);
}

// Decided by its entry: in the longest stall the synchronisation returns late.
static __always_inline bool ends_a_collective(const struct st_process* process, const struct call_in_flight* flight) {
  const u64 last_call_ns = process->last_call_ns;
  return last_call_ns && (flight->entry_ns <= last_call_ns || flight->entry_ns - last_call_ns <= SYNC_INTEREST_NS);
}

// A capture may come before the process's first collective call, or long after its latest: from here on the events are
// reported by which other streams join it.
static __always_inline void note_capture(struct st_process* process, const struct call_in_flight* flight) {
  if (process->last_call_ns < flight->entry_ns) {
    process->last_call_ns = flight->entry_ns;
  }
}

// Also of a process that calls no collective any more: its graphs may run them. What a thread launches within
// GRAPH_LAUNCHES_NS of a record is counted in its next one; after its last launch there is none.
static __always_inline bool reports_graphs(struct call_in_flight* flight, s32 return_code, u64 now) {
  if (return_code) {
    return false;
  }
  flight->graph_launches++;
  if (now - flight->graphs_sent_ns < GRAPH_LAUNCHES_NS) {
    return false;
  }
  flight->graphs_sent_ns = now;
  return true;
}

static __always_inline void emit_sync(const volatile struct st_call_spec* spec, struct call_in_flight* flight,
                                      struct st_process* process, u64 event, s32 return_code, u64 now, u64 id) {
  const u8 kind = spec->kind;
  if (kind == ST_CALL_BEGIN_CAPTURE || kind == ST_CALL_END_CAPTURE) {
    note_capture(process, flight);
  }
  const bool launches = kind == ST_CALL_GRAPH_LAUNCH;
  if (launches ? !reports_graphs(flight, return_code, now) : !ends_a_collective(process, flight)) {
    return;
  }
  if (!ST_HAS_COLLECTIVE_SHARE(process->user, ST_RECORD_BYTES(sizeof(struct st_sync)))) {
    return;
  }
  struct st_sync* record = bpf_ringbuf_reserve(&collective_ring, sizeof(*record), 0);
  if (!record) {
    count_loss(ST_LOSS_COLLECTIVE);
    return;
  }
  fill_header(&record->header, ST_RECORD_SYNC, sizeof(*record), now, id >> 32, (u32)id);
  record->entry_ns = flight->entry_ns;
  record->stream = flight->stream;
  record->event = launches ? flight->graph_launches : event;
  record->last_net_ns = last_collective_byte(process);
  record->net_bytes = process->net_bytes;
  record->return_code = return_code;
  record->row = flight->row;
  record->kind = kind;
  bpf_ringbuf_submit(record, ST_WAKE_FLAGS(&collective_ring));
  if (launches) {
    flight->graph_launches = 0;
  }
}

// Most polled calls find nothing.
static __always_inline bool found_nothing(const struct call_in_flight* flight) {
  return flight->done_address && !user_u32(flight->done_address, 0);
}

// Two things keep the verifier from walking these loops once for every combination: the bits of `done` are in memory,
// whose content it does not follow, and no iteration depends on the number of requests.

// Sets the bits of the requests that are done, according to the call's result.
static __always_inline void note_done(struct waited_requests* waited, u32 kind, u64 out_address, u64 done_address,
                                      u64 indices_address) {
  volatile u64* done = &waited->record.done;
  if (kind == ST_CALL_WAIT_ALL_REQUESTS) {
    *done = ~0ULL;
    return;
  }
  *done = 0;
  if (kind == ST_CALL_WAIT_ANY_REQUEST) {
    const u32 index = user_u32(out_address, ST_MAX_REQUESTS);
    if (index < ST_MAX_REQUESTS) {  // otherwise MPI_UNDEFINED: there was nothing to wait for
      *done = 1ULL << index;
    }
    return;
  }
  const u32 count = user_u32(done_address, 0);
  if ((s32)count < 0) {  // MPI_UNDEFINED
    return;
  }
  __builtin_memset(waited->index, 0xff, sizeof(waited->index));  // entries beyond `count`: no request
  bpf_probe_read_user(waited->index, at_most((u64)count * sizeof(u32), sizeof(waited->index)),
                      (const void*)indices_address);
  for (u32 i = 0; i < ST_MAX_REQUESTS; i++) {
    const u32 index = waited->index[i];
    if (index < ST_MAX_REQUESTS) {
      *done |= 1ULL << (index & (ST_MAX_REQUESTS - 1));
    }
  }
}

// Clears the bits of requests that are unchanged since entry. One that was done earlier is MPI_REQUEST_NULL at entry
// and return: it ended nothing, however often it is polled.
static __always_inline void drop_unchanged(struct waited_requests* waited, bool ints) {
  volatile u64* done = &waited->record.done;
  const u32* before = (const u32*)waited->record.handles;
  const u32* after = waited->after.ints;
  for (u32 i = 0; i < ST_MAX_REQUESTS; i++) {
    const bool same = ints ? before[i] == after[i] : waited->record.handles[i] == waited->after.pointers[i];
    if (same) {
      *done &= ~(1ULL << i);
    }
  }
  const u32 count = waited->record.count;
  if (count < ST_MAX_REQUESTS) {
    *done &= (1ULL << (count & (ST_MAX_REQUESTS - 1))) - 1;
  }
}

// Notes which of the requests that the current thread waited for have ended; 0: none has. No static function: the
// verifier looks at its loops once, not once for every way that leads to them.
__noinline int find_done(u32 kind, u32 int_handles, u64 out_address, u64 done_address, u64 indices_address) {
  struct waited_requests* waited = waits_of(current_task(), (u32)bpf_get_current_pid_tgid(), false);
  if (!waited) {
    return 0;
  }
  note_done(waited, kind, out_address, done_address, indices_address);
  drop_unchanged(waited, int_handles);
  return *(volatile u64*)&waited->record.done != 0;
}

static __always_inline void emit_requests_done(const volatile struct st_call_spec* spec,
                                               const struct call_in_flight* flight, const struct st_process* process,
                                               struct waited_requests* waited, s32 return_code, u64 now, u64 id) {
  const u64 bytes = bytes_of_handles(waited->record.count, flight->int_handles);
  if (!ends_a_collective(process, flight) ||
      bpf_probe_read_user(&waited->after, bytes, (const void*)flight->requests)) {
    return;
  }
  struct st_requests_done* record = &waited->record;
  if (!find_done(spec->kind, flight->int_handles, flight->out_address, flight->done_address, flight->indices_address) ||
      !ST_HAS_COLLECTIVE_SHARE(process->user, ST_RECORD_BYTES(sizeof(struct st_requests_done)))) {
    return;
  }
  fill_header(&record->header, ST_RECORD_REQUESTS_DONE, sizeof(*record), now, id >> 32, (u32)id);
  record->entry_ns = flight->entry_ns;
  record->last_net_ns = last_collective_byte(process);
  record->net_bytes = process->net_bytes;
  record->return_code = return_code;
  record->row = flight->row;
  record->kind = spec->kind;
  record->int_handles = flight->int_handles;
  if (bpf_ringbuf_output(&collective_ring, record, sizeof(*record), ST_WAKE_FLAGS(&collective_ring))) {
    count_loss(ST_LOSS_COLLECTIVE);
  }
}

static __always_inline void emit_waits(const volatile struct st_call_spec* spec, struct call_in_flight* flight,
                                       struct st_process* process, struct task_struct* task, s32 return_code, u64 now,
                                       u64 id) {
  if (spec->kind == ST_CALL_WAIT_REQUEST) {
    if (handle_at(flight->requests, flight->int_handles) != flight->event) {
      emit_sync(spec, flight, process, flight->event, return_code, now, id);
    }
    return;
  }
  struct waited_requests* waited = waits_of(task, (u32)id, false);
  if (waited) {
    emit_requests_done(spec, flight, process, waited, return_code, now, id);
  }
}

#endif
