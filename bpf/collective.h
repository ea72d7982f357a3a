// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Calls of the collective library and the GPU runtime: one entry program and one return program for every row of
// the call table. The row's index travels in the attach cookie.
#ifndef STALLTRACE_COLLECTIVE_H
#define STALLTRACE_COLLECTIVE_H

#include "threads.h"
#include "wire/collective.h"

#define ST_READ_USER(destination, size, address) bpf_probe_read_user(destination, size, (const void*)(address))
#include "calling_convention.h"

// Later than this after a process's last collective call, its synchronisation calls are nobody's completion.
#define SYNC_INTEREST_NS (60ULL * 1000000000ULL)

const volatile struct st_call_spec calls[ST_MAX_CALLS] = {};

// A call in flight on a thread. Only the outermost counts: ncclBcast calls ncclBroadcast.
struct call_in_flight {
  u64 stack_pointer;  // at entry; 0: nothing in flight
  u64 entry_ns;
  u64 comm;
  u64 out_address;  // where the new communicator or the queried int will be written
  u64 stream;
  u64 event;
  u64 sequence_peer;  // key part of the sequence counter, to take back the number of a refused call
  u32 row;
  u32 group_depth;
  u64 group_id;  // entry of the outermost ncclGroupStart
  u32 nranks;    // communicators that the call makes in this process
  u32 padding;
};

struct {
  __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, int);
  __type(value, struct call_in_flight);
} calls_in_flight SEC(".maps");

// Where storage at the task cannot be made: the kernel refuses where it interrupted another that is making some on this
// CPU, and keeps only a handful of pieces of memory ready. A first call is not to be lost for that.
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 1024);
  __type(key, u32);  // tid
  __type(value, struct call_in_flight);
} spare_calls_in_flight SEC(".maps");
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 1024);
  __type(key, u32);  // tgid
  __type(value, struct st_process);
} spare_processes SEC(".maps");

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

static __always_inline struct call_in_flight* flight_of(struct task_struct* task, u64 flags) {
  struct call_in_flight* flight = bpf_task_storage_get(&calls_in_flight, task, 0, flags);
  if (flight) {
    return flight;
  }
  const u32 tid = task->pid;
  flight = bpf_map_lookup_elem(&spare_calls_in_flight, &tid);
  if (!flight && flags == BPF_LOCAL_STORAGE_GET_F_CREATE) {
    const struct call_in_flight fresh = {};
    bpf_map_update_elem(&spare_calls_in_flight, &tid, &fresh, BPF_NOEXIST);
    flight = bpf_map_lookup_elem(&spare_calls_in_flight, &tid);
  }
  return flight;
}

// Next sequence numbers. A communicator's own goes with it; what a process leaves is removed by user space at its exit.
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 262144);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, struct st_sequence_key);
  __type(value, u64);
} sequences SEC(".maps");

static __always_inline u64 argument(const struct st_arguments* arguments, u8 slot) {
  return arguments->slot[slot & (ST_ARGUMENT_SLOTS - 1)];
}

static __always_inline struct st_process* calling_process(struct task_struct* task, u32 tgid) {
  struct st_process* process = process_of(task);
  return process ?: bpf_map_lookup_elem(&spare_processes, &tgid);
}

static __always_inline struct st_process* new_process(struct task_struct* task, u32 tgid) {
  struct st_process* process = bpf_task_storage_get(&processes, task->group_leader, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
  if (!process) {
    const struct st_process fresh = {};
    bpf_map_update_elem(&spare_processes, &tgid, &fresh, BPF_NOEXIST);
    process = bpf_map_lookup_elem(&spare_processes, &tgid);
  }
  if (process) {
    process->cgroup_id = bpf_get_current_cgroup_id();
  }
  return process;
}

static __always_inline struct st_process* traced_process(struct task_struct* task, u32 tgid) {
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
  watch_thread(task, bpf_ktime_get_ns());  // user space finds the others
  // User space has not found this process by its maps yet (a fork, or a very early call): tell it.
  struct st_header* record = bpf_ringbuf_reserve(&collective_ring, sizeof(*record), 0);
  if (record) {
    const u64 id = bpf_get_current_pid_tgid();
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

static __always_inline u64 take_sequence(u32 tgid, u64 comm, u64 peer) {
  struct st_sequence_key key = {.comm = comm, .peer = peer, .tgid = tgid};
  u64* next = bpf_map_lookup_elem(&sequences, &key);
  if (next) {
    return __sync_fetch_and_add(next, 1);
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

static __always_inline void emit_comm_init(const struct st_arguments* arguments,
                                           const volatile struct st_call_spec* spec,
                                           const struct call_in_flight* flight, u64 id) {
  struct st_comm_init* record = bpf_ringbuf_reserve(&collective_ring, sizeof(*record), 0);
  if (!record) {
    count_loss(ST_LOSS_COLLECTIVE);
    return;
  }
  fill_header(&record->header, ST_RECORD_COMM_INIT, sizeof(*record), flight->entry_ns, id >> 32, (u32)id);
  record->cgroup_id = bpf_get_current_cgroup_id();
  record->parent_comm = spec->comm ? argument(arguments, spec->comm) : 0;
  record->nranks = spec->nranks ? (s32)argument(arguments, spec->nranks) : -1;
  record->rank = spec->rank ? (s32)argument(arguments, spec->rank) : -1;
  record->color = spec->color ? (s32)argument(arguments, spec->color) : -1;
  record->key = spec->key ? (s32)argument(arguments, spec->key) : 0;
  record->row = flight->row;
  record->padding = 0;
  const u64 id_address = spec->id_by_value ? arguments->id_address : spec->id ? argument(arguments, spec->id) : 0;
  record->has_id = id_address && !bpf_probe_read_user(record->id, sizeof(record->id), (const void*)id_address);
  if (!record->has_id) {
    __builtin_memset(record->id, 0, sizeof(record->id));
  }
  bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
}

// Bytes of one element of an MPI_Datatype. OpenMPI's is a pointer to struct ompi_datatype_t, whose base, struct
// opal_datatype_t (opal/datatype/opal_datatype.h), has the size behind a 16-byte object head, two u16 and a u32.
// MPICH's is an int that carries the size of a predefined type in its second byte (src/include/mpi.h.in, 0x4c00SSnn).
static __always_inline u32 mpi_element_bytes(u64 datatype) {
  if (datatype >> 32) {
    u64 bytes = 0;
    bpf_probe_read_user(&bytes, sizeof(bytes), (const void*)(datatype + 24));
    return bytes < (1ULL << 32) ? bytes : 0;
  }
  return (datatype & 0xff000000) == 0x4c000000 ? (datatype >> 8) & 0xff : 0;
}

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

static __always_inline void emit_entry(const struct st_arguments* arguments, const volatile struct st_call_spec* spec,
                                       const struct call_in_flight* flight, const struct st_process* process,
                                       u64 sequence, u64 id) {
  struct st_call_entry* record = bpf_ringbuf_reserve(&collective_ring, sizeof(*record), 0);
  if (!record) {
    count_loss(ST_LOSS_COLLECTIVE);
    return;
  }
  fill_header(&record->header, ST_RECORD_CALL_ENTRY, sizeof(*record), flight->entry_ns, id >> 32, (u32)id);
  record->count = spec->count ? argument(arguments, spec->count) : 0;
  record->comm = flight->comm;
  record->stream = flight->stream;
  record->sequence = sequence;
  record->group_id = flight->group_depth ? flight->group_id : 0;
  record->cgroup_id = process->cgroup_id;
  record->group_started_ns = flight->group_id;
  record->last_net_ns = last_collective_byte(process);
  record->net_bytes = process->net_bytes;
  record->datatype = spec->datatype ? (s32)argument(arguments, spec->datatype) : -1;
  record->reduce_op = spec->reduce_op ? (s32)argument(arguments, spec->reduce_op) : -1;
  record->root = spec->root ? (s32)argument(arguments, spec->root) : -1;
  record->peer = spec->peer ? (s32)argument(arguments, spec->peer) : -1;
  record->row = flight->row;
  record->flags = flight->group_depth ? ST_CALL_IN_GROUP : 0;
  record->stack_id = -1;
  record->element_bytes = spec->mpi_datatype ? mpi_element_bytes(argument(arguments, spec->mpi_datatype)) : 0;
  record->padding = 0;
  bpf_ringbuf_submit(record, ST_WAKE_FLAGS(&collective_ring));
}

SEC("uprobe")
int call_entry(struct pt_regs* ctx) {
  const struct st_registers* registers = (const struct st_registers*)ctx;
  const u32 row = bpf_get_attach_cookie(ctx) & (ST_MAX_CALLS - 1);
  const volatile struct st_call_spec* spec = &calls[row];
  const u64 id = bpf_get_current_pid_tgid();
  const u32 tgid = id >> 32;
  struct task_struct* task = bpf_get_current_task_btf();

  struct st_process* process = traced_process(task, tgid);
  if (!process) {
    return 0;
  }
  struct call_in_flight* flight = flight_of(task, BPF_LOCAL_STORAGE_GET_F_CREATE);
  if (!flight) {
    count_loss(ST_LOSS_THREAD_STATE);
    return 0;
  }
  const u64 stack_pointer = ST_STACK_POINTER(registers);
  if (flight->stack_pointer) {
    // Deeper on the stack, or a tail call into another function: nested. Anything else means that the
    // outer call was left without its return being seen (longjmp, an exception): it is over.
    if (stack_pointer < flight->stack_pointer || (stack_pointer == flight->stack_pointer && row != flight->row)) {
      return 0;
    }
  }
  struct st_arguments arguments = {};
  const struct st_call_spec arguments_spec = {.id_by_value = spec->id_by_value,
                                              .stack_arguments = spec->stack_arguments};
  st_read_arguments(registers, &arguments_spec, &arguments);

  const u64 now = bpf_ktime_get_ns();
  flight->stack_pointer = stack_pointer;
  flight->entry_ns = now;
  flight->row = row;
  flight->comm = spec->comm ? argument(&arguments, spec->comm) : 0;
  flight->stream = spec->stream ? argument(&arguments, spec->stream) : 0;
  flight->event = spec->event ? argument(&arguments, spec->event) : 0;
  flight->nranks = spec->nranks ? (u32)argument(&arguments, spec->nranks) : 0;
  flight->out_address = spec->new_comm  ? argument(&arguments, spec->new_comm)
                        : spec->out     ? argument(&arguments, spec->out)
                        : spec->request ? argument(&arguments, spec->request)
                                        : 0;

  switch (spec->kind) {
    case ST_CALL_DATA: {
      process->last_call_ns = now;
      const u64 peer =
          spec->peer ? ((u64)spec->operation << 32 | (u32)argument(&arguments, spec->peer)) : ST_SEQUENCE_COLLECTIVE;
      flight->sequence_peer = peer;
      emit_entry(&arguments, spec, flight, process, take_sequence(tgid, flight->comm, peer), id);
      break;
    }
    case ST_CALL_GROUP_START:
      if (flight->group_depth++ == 0) {
        flight->group_id = now;
      }
      break;
    case ST_CALL_GROUP_END:
      if (flight->group_depth == 0) {  // tracing began inside the group
        flight->group_depth = 1;
        flight->group_id = now;
      }
      if (flight->group_depth == 1) {
        emit_entry(&arguments, spec, flight, process, 0, id);
      }
      break;
    case ST_CALL_COMM_INIT:
    case ST_CALL_COMM_INIT_ALL:
    case ST_CALL_COMM_SPLIT:
      emit_comm_init(&arguments, spec, flight, id);
      break;
    case ST_CALL_COMM_END:
      emit_entry(&arguments, spec, flight, process, 0, id);
      break;
    case ST_CALL_WAIT_REQUEST:
    case ST_CALL_WAIT_ALL_REQUESTS:
    case ST_CALL_WAIT_ANY_REQUEST:
      note_requests(&arguments, spec, (u32)id);
      break;
  }
  return 0;
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

// A communicator's numbers begin at 0, also where an earlier one lay at the same address.
static __always_inline void forget_sequence(u32 tgid, u64 comm) {
  struct st_sequence_key key = {.comm = comm, .peer = ST_SEQUENCE_COLLECTIVE, .tgid = tgid};
  bpf_map_delete_elem(&sequences, &key);
}

static __always_inline void emit_return(const struct call_in_flight* flight, u64 comm, u64 value, s32 return_code,
                                        u64 now, u64 id, u64 wake_flags) {
  struct st_call_return* record = bpf_ringbuf_reserve(&collective_ring, sizeof(*record), 0);
  if (!record) {
    count_loss(ST_LOSS_COLLECTIVE);
    return;
  }
  fill_header(&record->header, ST_RECORD_CALL_RETURN, sizeof(*record), now, id >> 32, (u32)id);
  record->entry_ns = flight->entry_ns;
  record->comm = comm;
  record->value = value;
  record->group_id = flight->group_depth ? flight->group_id : 0;
  record->return_code = return_code;
  record->row = flight->row;
  record->flags = flight->group_depth ? ST_CALL_IN_GROUP : 0;
  bpf_ringbuf_submit(record, wake_flags);
}

// ncclCommInitAll: one record for each communicator it made; `comm` carries the index, which is the rank.
static __always_inline void emit_members(const struct call_in_flight* flight, s32 return_code, u64 now, u64 id) {
  for (u32 i = 0; i < ST_MAX_LOCAL_RANKS && i < flight->nranks; i++) {
    u64 comm = 0;
    bpf_probe_read_user(&comm, sizeof(comm), (const void*)(flight->out_address + i * sizeof(comm)));
    forget_sequence(id >> 32, comm);
    emit_return(flight, i, comm, return_code, now, id, BPF_RB_FORCE_WAKEUP);
  }
}

// What a call wrote where an argument points: a new communicator, its request, or the int it was asked for.
static __always_inline u64 written_by(const volatile struct st_call_spec* spec, const struct call_in_flight* flight,
                                      u64 id) {
  u64 value = 0;
  if (flight->out_address && spec->new_comm) {
    bpf_probe_read_user(&value, sizeof(value), (const void*)flight->out_address);
    forget_sequence(id >> 32, value);
  } else if (flight->out_address && spec->request) {
    bpf_probe_read_user(&value, sizeof(value), (const void*)flight->out_address);
  } else if (flight->out_address) {
    bpf_probe_read_user(&value, sizeof(u32), (const void*)flight->out_address);
  }
  return value;
}

static __always_inline void end_call(const volatile struct st_call_spec* spec, const struct call_in_flight* flight,
                                     s32 return_code, u64 now, u64 id) {
  emit_return(flight, flight->comm, written_by(spec, flight, id), return_code, now, id,
              ST_WAKE_FLAGS(&collective_ring));
}

SEC("uretprobe")
int call_return(struct pt_regs* ctx) {
  const struct st_registers* registers = (const struct st_registers*)ctx;
  const u32 row = bpf_get_attach_cookie(ctx) & (ST_MAX_CALLS - 1);
  const volatile struct st_call_spec* spec = &calls[row];
  const u64 id = bpf_get_current_pid_tgid();
  const u32 tgid = id >> 32;
  struct task_struct* task = bpf_get_current_task_btf();

  struct call_in_flight* flight = flight_of(task, 0);
  if (!flight || !flight->stack_pointer || flight->row != row ||
      ST_ENTRY_STACK_POINTER_AT_RETURN(registers) < flight->stack_pointer) {
    return 0;  // a nested call's return, or one entered before tracing began
  }
  struct st_process* process = calling_process(task, tgid);
  if (!process) {
    return 0;
  }
  const u64 now = bpf_ktime_get_ns();
  const s32 return_code = (s32)ST_RETURN_VALUE(registers);
  switch (spec->kind) {
    case ST_CALL_DATA:
      if (return_code != 0 && return_code != 7 /* ncclInProgress */) {
        give_back_sequence(tgid, flight->comm, flight->sequence_peer);  // refused: the library did not count it either
      }
      end_call(spec, flight, return_code, now, id);
      break;
    case ST_CALL_GROUP_START:
      break;
    case ST_CALL_GROUP_END:
      if (flight->group_depth == 1) {
        end_call(spec, flight, return_code, now, id);
      }
      if (flight->group_depth > 0) {
        flight->group_depth--;
      }
      break;
    case ST_CALL_COMM_INIT_ALL:
      if (return_code == 0 && flight->nranks > 0) {
        emit_members(flight, return_code, now, id);
      } else {
        end_call(spec, flight, return_code, now, id);
      }
      break;
    case ST_CALL_SYNC_STREAM:
    case ST_CALL_SYNC_DEVICE:
    case ST_CALL_SYNC_EVENT:
    case ST_CALL_EVENT_RECORD:
    case ST_CALL_STREAM_WAIT_EVENT:
      emit_sync(spec, flight, process, flight->event, return_code, now, id);
      break;
    case ST_CALL_WAIT_REQUEST:
    case ST_CALL_WAIT_ALL_REQUESTS:
    case ST_CALL_WAIT_ANY_REQUEST:
      emit_waits(spec, flight, process, return_code, now, id);
      break;
    default:
      end_call(spec, flight, return_code, now, id);
      break;
  }
  flight->stack_pointer = 0;
  return 0;
}

#endif
