// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The call that each thread is in, the process it belongs to, and the number of calls on each communicator.
#ifndef STALLTRACE_CALLS_IN_FLIGHT_H
#define STALLTRACE_CALLS_IN_FLIGHT_H

#include "threads.h"
#include "wire/collective.h"

const volatile struct st_call_spec calls[ST_MAX_CALLS] = {};

#define ST_CALL_SITES 8  // call sites kept per thread: a training loop has about as many

// A call's records are all in the ring, or none: without that of its return it would seem never to end.
enum room {
  ST_ROOM_NOT_ASKED = 0,
  ST_ROOM_PAID,  // also for the record of its return
  ST_ROOM_REFUSED,
};

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
  u32 room;                       // enum room: in the ring, for its records
  u32 graph_launches;             // of this thread, in no record yet
  u64 graphs_sent_ns;             // its latest record of graph launches
  u64 call_sites[ST_CALL_SITES];  // hashes of call sites whose stacks were sent
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
    identify(process, task);
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
  identify(process, task);
  if (!watch_thread(process, task, (u32)id, tgid, bpf_ktime_get_ns()) && !config.task_storage) {
    count_loss(ST_LOSS_THREAD_STATE);  // user space finds the other threads, and has no room for this one either
  }
  // User space has not yet found this process by its maps (a fork, or a very early call): report it.
  if (!ST_HAS_COLLECTIVE_SHARE(process->user, ST_RECORD_BYTES(sizeof(struct st_process_seen)))) {
    return process;
  }
  struct st_process_seen* record = bpf_ringbuf_reserve(&collective_ring, sizeof(*record), 0);
  if (record) {
    fill_header(&record->header, ST_RECORD_PROCESS, sizeof(*record), bpf_ktime_get_ns(), tgid, (u32)id);
    record->user = process->user;
    record->padding = 0;
    bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
  } else {
    count_loss(ST_LOSS_COLLECTIVE);
  }
  return process;
}

static __always_inline u64 last_collective_byte(const struct st_process* process) {
  return process->last_nccl_net_ns ? process->last_nccl_net_ns : process->last_net_ns;
}

// Next sequence numbers. A communicator's own number is removed with it; what a process leaves, user space removes.
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 262144);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, struct st_sequence_key);
  __type(value, struct st_sequence);
} sequences SEC(".maps");

// How many of st_user.sequences_made user space has removed: nothing else writes here.
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, ST_MAX_USERS + 1);
  __type(key, u32);
  __type(value, u64);
} removed_sequences SEC(".maps");

#define ST_NO_SEQUENCE (~0ULL)
#define EEXIST 17

// The first number of a communicator. None where the process or its user counts too many.
static __noinline int begin_sequence(struct st_process* process, const struct st_sequence_key* key) {
  const u32 user = process->user;
  struct st_user* share = share_of(user);
  if (!share) {
    return 0;
  }
  const u64* removed = bpf_map_lookup_elem(&removed_sequences, &user);
  const u64 held = share->sequences_made - (removed ? *removed : 0);
  if (process->sequences >= config.most_sequences_of_process ||
      ((s64)held > 0 && held >= config.most_sequences_of_user)) {
    count_users_loss(share, ST_LOSS_SEQUENCE);
    return 0;
  }
  const struct st_sequence first = {.next = 1, .user = user};
  const long error = bpf_map_update_elem(&sequences, key, &first, BPF_NOEXIST);
  if (error) {
    if (error != -EEXIST) {
      count_loss(ST_LOSS_SEQUENCE);
    }
    return 0;
  }
  __sync_fetch_and_add(&process->sequences, 1);
  __sync_fetch_and_add(&share->sequences_made, 1);
  return 1;
}

// Before Linux 5.12 the kernel refuses programs with an atomic operation that also returns the value. There, two
// threads that call at the same instant may get one number. Callers that need `atomic` false are programs of their own.
static __always_inline u64 take_sequence(struct st_process* process, u32 tgid, u64 comm, u64 peer, bool atomic) {
  const struct st_sequence_key key = {.comm = comm, .peer = peer, .tgid = tgid, .start_ticks = process->start_ticks};
  struct st_sequence* sequence = bpf_map_lookup_elem(&sequences, &key);
  if (!sequence) {
    if (begin_sequence(process, &key)) {
      return 0;
    }
    sequence = bpf_map_lookup_elem(&sequences, &key);  // another thread may have begun it just now
    if (!sequence) {
      return ST_NO_SEQUENCE;
    }
  }
  if (atomic) {
    return __sync_fetch_and_add(&sequence->next, 1);
  }
  const u64 taken = *(volatile u64*)&sequence->next;
  __sync_fetch_and_add(&sequence->next, 1);
  return taken;
}

static __always_inline void give_back_sequence(const struct st_process* process, u32 tgid, u64 comm, u64 peer) {
  const struct st_sequence_key key = {.comm = comm, .peer = peer, .tgid = tgid, .start_ticks = process->start_ticks};
  struct st_sequence* sequence = bpf_map_lookup_elem(&sequences, &key);
  if (sequence) {
    __sync_fetch_and_add(&sequence->next, (u64)-1);
  }
}

// A communicator's numbers begin at 0, also where an earlier one lay at the same address. Of the current process. No
// static function: the verifier looks at it once, not at each call.
__noinline int forget_sequence(u64 comm) {
  const u64 id = bpf_get_current_pid_tgid();
  struct st_process* process = calling_process(current_task(), id >> 32);
  if (!process) {
    return 0;
  }
  const struct st_sequence_key key = {
      .comm = comm, .peer = ST_SEQUENCE_COLLECTIVE, .tgid = id >> 32, .start_ticks = process->start_ticks};
  if (bpf_map_delete_elem(&sequences, &key)) {
    return 0;  // mostly: there was none
  }
  __sync_fetch_and_add(&process->sequences, (u32)-1);
  const u32 user = process->user;
  struct st_user* share = bpf_map_lookup_elem(&users, &user);
  if (share) {
    __sync_fetch_and_add(&share->sequences_made, (u64)-1);
  }
  return 0;
}

#endif
