// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The call that each thread is in, the process it belongs to, and the number of calls on each communicator.
#ifndef STALLTRACE_CALLS_IN_FLIGHT_H
#define STALLTRACE_CALLS_IN_FLIGHT_H

#include "threads.h"
#include "wire/collective.h"

const volatile struct st_call_spec calls[ST_MAX_CALLS] = {};

#define ST_PLACES 8  // call sites kept per thread: a training loop has about as many

// A call in flight on a thread. Only the outermost counts, since ncclBcast calls ncclBroadcast.
struct call_in_flight {
  u64 stack_pointer;  // at entry; 0: nothing in flight
  u64 entry_ns;
  u64 comm;
  u64 out_address;  // where the new communicator or the queried int will be written
  u64 requests;     // where an asynchronous call's request will be written, or where the awaited ones are
  u64 done_address;
  u64 indices_address;
  u64 stream;
  u64 event;          // or the only awaited request
  u64 sequence_peer;  // key part of the sequence counter, to return the number of a refused call
  u32 row;
  u32 group_depth;
  u64 group_id;  // entry time of the outermost ncclGroupStart
  u32 nranks;    // number of communicators that the call makes in this process
  u32 int_handles;
  u64 places[ST_PLACES];  // hashes of call sites whose stacks were sent
};

ST_TASK_STATE(calls_in_flight, struct call_in_flight);
ST_STATE_BY_NUMBER(calls_in_flight_by_tid, struct call_in_flight,
                   ST_TRACED_THREADS);  // a fallback, like processes_by_tgid

static __always_inline struct call_in_flight* flight_of(struct task_struct* task, u32 tid, bool make) {
  if (config.task_storage) {
    struct call_in_flight* flight =
        bpf_task_storage_get(&calls_in_flight, task, 0, make ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
    if (flight) {
      return flight;
    }
  }
  return state_by_number(&calls_in_flight_by_tid, tid, make);
}

static __always_inline struct st_process* calling_process(struct task_struct* task, u32 tgid) {
  struct st_process* process = process_of(task, tgid);
  if (process || !config.task_storage) {
    return process;
  }
  return state_by_number(&processes_by_tgid, tgid, false);
}

static __always_inline struct st_process* new_process(struct task_struct* task, u32 tgid) {
  struct st_process* process = NULL;
  if (config.task_storage) {
    process = bpf_task_storage_get(&processes, task->group_leader, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
  }
  if (!process) {
    process = state_by_number(&processes_by_tgid, tgid, true);
  }
  if (process) {
    process->cgroup_id = bpf_get_current_cgroup_id();
  }
  return process;
}

static __always_inline struct st_process* traced_process(struct task_struct* task, u64 id) {
  const u32 tgid = id >> 32;
  struct st_process* process = calling_process(task, tgid);
  if (process) {
    return process;
  }
  if (!in_scope(tgid, task)) {
    return NULL;
  }
  process = new_process(task, tgid);
  if (!process) {
    count_loss(ST_LOSS_THREAD_STATE);
    return NULL;
  }
  if (!watch_thread(task, (u32)id, tgid, bpf_ktime_get_ns()) && !config.task_storage) {
    count_loss(ST_LOSS_THREAD_STATE);  // user space finds the other threads, and has no room for this one either
  }
  // User space has not yet found this process by its maps (a fork, or a very early call): report it.
  struct st_header* record = bpf_ringbuf_reserve(&collective_ring, sizeof(*record), 0);
  if (record) {
    fill_header(record, ST_RECORD_PROCESS, sizeof(*record), bpf_ktime_get_ns(), tgid, (u32)id);
    bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
  } else {
    count_loss(ST_LOSS_COLLECTIVE);
  }
  return process;
}

static __always_inline u64 last_collective_byte(const struct st_process* process) {
  return process->last_nccl_net_ns ? process->last_nccl_net_ns : process->last_net_ns;
}

// Next sequence numbers. A communicator's own is deleted with it; user space deletes a process's rest at its exit.
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 262144);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, struct st_sequence_key);
  __type(value, u64);
} sequences SEC(".maps");

// Before Linux 5.12 the kernel refuses programs with an atomic operation that also returns the value, so two threads
// that call at the same instant may get one number there. Callers with `atomic` false are separate programs.
static __always_inline u64 take_sequence(u32 tgid, u64 comm, u64 peer, bool atomic) {
  struct st_sequence_key key = {.comm = comm, .peer = peer, .tgid = tgid};
  u64* next = bpf_map_lookup_elem(&sequences, &key);
  if (next && atomic) {
    return __sync_fetch_and_add(next, 1);
  }
  if (next) {
    const u64 taken = *(volatile u64*)next;
    __sync_fetch_and_add(next, 1);
    return taken;
  }
  const u64 one = 1;
  if (bpf_map_update_elem(&sequences, &key, &one, BPF_ANY)) {
    count_loss(ST_LOSS_SEQUENCE);
  }
  return 0;
}

static __always_inline void give_back_sequence(u32 tgid, u64 comm, u64 peer) {
  struct st_sequence_key key = {.comm = comm, .peer = peer, .tgid = tgid};
  u64* next = bpf_map_lookup_elem(&sequences, &key);
  if (next) {
    __sync_fetch_and_add(next, (u64)-1);
  }
}

// A new communicator's numbers begin at 0, even if an earlier one had the same address.
static __always_inline void forget_sequence(u32 tgid, u64 comm) {
  struct st_sequence_key key = {.comm = comm, .peer = ST_SEQUENCE_COLLECTIVE, .tgid = tgid};
  bpf_map_delete_elem(&sequences, &key);
}

#endif
