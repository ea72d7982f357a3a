// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Calls of the collective library and the GPU runtime: one entry program and one return program for every row of the
// call table. The attach cookie holds the row's index.
#ifndef STALLTRACE_COLLECTIVE_H
#define STALLTRACE_COLLECTIVE_H

#include "arguments.h"
#include "calls_in_flight.h"
#include "nccl_identity.h"
#include "stacks.h"
#include "synchronisation.h"

#define ST_RETURN_BYTES ST_RECORD_BYTES(sizeof(struct st_call_return))

// Room for a call's record of `bytes` and for that of its return. Where there is none, neither is sent.
static __always_inline bool pay_for_call(struct call_in_flight* flight, const struct st_process* process, u32 bytes) {
  const bool paid = ST_HAS_COLLECTIVE_SHARE(process->user, bytes + ST_RETURN_BYTES);
  flight->room = paid ? ST_ROOM_PAID : ST_ROOM_REFUSED;
  return paid;
}

static __always_inline void emit_comm_init(const struct st_arguments* arguments,
                                           const volatile struct st_call_spec* spec, struct call_in_flight* flight,
                                           const struct st_process* process, u64 id) {
  const u32 returns = spec->kind == ST_CALL_COMM_INIT_ALL ? at_most(flight->nranks, ST_MAX_LOCAL_RANKS) : 0;
  if (!pay_for_call(flight, process, ST_RECORD_BYTES(sizeof(struct st_comm_init)) + returns * ST_RETURN_BYTES)) {
    return;
  }
  struct st_comm_init* record = bpf_ringbuf_reserve(&collective_ring, sizeof(*record), 0);
  if (!record) {
    flight->room = ST_ROOM_REFUSED;
    count_loss(ST_LOSS_COLLECTIVE);
    return;
  }
  fill_header(&record->header, ST_RECORD_COMM_INIT, sizeof(*record), flight->entry_ns, id >> 32, (u32)id);
  record->cgroup_id = bpf_get_current_cgroup_id();
  record->parent_comm = spec->entry_only ? 0 : flight->comm;
  record->comm = spec->entry_only ? flight->comm : 0;
  record->nranks = spec->nranks ? (s32)argument(arguments, spec->nranks) : -1;
  record->rank = spec->rank ? (s32)argument(arguments, spec->rank) : -1;
  if (record->comm) {
    record->rank = (s32)user_u32(record->comm + ST_GLOO_CONTEXT_RANK, -1);
    record->nranks = (s32)user_u32(record->comm + ST_GLOO_CONTEXT_SIZE, -1);
  }
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

static __always_inline void emit_entry(const struct st_arguments* arguments, const volatile struct st_call_spec* spec,
                                       struct call_in_flight* flight, const struct st_process* process, u64 sequence,
                                       u64 id, u64 call_site) {
  if (!pay_for_call(flight, process, ST_RECORD_BYTES(sizeof(struct st_call_entry)))) {
    return;
  }
  struct st_call_entry* record = bpf_ringbuf_reserve(&collective_ring, sizeof(*record), 0);
  if (!record) {
    flight->room = ST_ROOM_REFUSED;
    count_loss(ST_LOSS_COLLECTIVE);
    return;
  }
  fill_header(&record->header, ST_RECORD_CALL_ENTRY, sizeof(*record), flight->entry_ns, id >> 32, (u32)id);
  record->count = spec->mpi_datatype ? (u32)argument(arguments, spec->count) : argument(arguments, spec->count);
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
  record->padding[0] = record->padding[1] = 0;
  record->call_site = call_site;
  record->element_bytes =
      spec->mpi_datatype ? mpi_element_bytes(argument(arguments, spec->mpi_datatype), flight->int_handles) : 0;
  record->tag = 0;
  record->comm_rank = record->comm_size = -1;
  if (spec->options) {
    read_options(spec, argument(arguments, 1), record);
  }
  bpf_ringbuf_submit(record, ST_WAKE_FLAGS(&collective_ring));
}

static __always_inline void send_return(const struct call_in_flight* flight, u64 comm, u64 value, s32 return_code,
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

static __always_inline bool has_room(const struct call_in_flight* flight, const struct st_process* process) {
  return flight->room == ST_ROOM_PAID ||
         (flight->room == ST_ROOM_NOT_ASKED && ST_HAS_COLLECTIVE_SHARE(process->user, ST_RETURN_BYTES));
}

static __always_inline void emit_return(const struct call_in_flight* flight, const struct st_process* process, u64 comm,
                                        u64 value, s32 return_code, u64 now, u64 id, u64 wake_flags) {
  if (has_room(flight, process)) {
    send_return(flight, comm, value, return_code, now, id, wake_flags);
  }
}

// The thread's call without a return probe has finished or thrown.
static __always_inline void finish_call(struct call_in_flight* flight, const struct st_process* process,
                                        s32 return_code, u64 id) {
  if (flight->stack_pointer && calls[flight->row & (ST_MAX_CALLS - 1)].entry_only) {
    emit_return(flight, process, flight->comm, 0, return_code, bpf_ktime_get_ns(), id, ST_WAKE_FLAGS(&collective_ring));
    flight->stack_pointer = 0;
  }
}

// Where probes have no cookies, user space attaches a small program to each probe: it stores the cookie here and
// tail-calls ours. Nothing else runs on this CPU in between: kernels without cookies (before 5.15) run both with
// preemption off, and let no other program of this kind interrupt them.
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, u64);
} call_cookie SEC(".maps");

// The programs that those tail-call.
struct {
  __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
  __uint(max_entries, ST_CALL_PROGRAMS);
  __type(key, u32);
  __type(value, u32);
} call_programs SEC(".maps");

static __always_inline u64 cookie_of(struct pt_regs* ctx) {
  if (config.attach_cookie) {
    return bpf_get_attach_cookie(ctx);
  }
  const u32 zero = 0;
  const u64* cookie = bpf_map_lookup_elem(&call_cookie, &zero);
  return cookie ? *cookie : 0;
}

// Whether a call at this stack pointer is made inside the thread's call in flight. C++ calls without a return probe
// don't call each other: a new one means that the last one is over.
static __always_inline bool is_nested(const struct call_in_flight* flight, const volatile struct st_call_spec* spec,
                                      u64 stack_pointer, u32 row) {
  if (!flight->stack_pointer || spec->entry_only || calls[flight->row & (ST_MAX_CALLS - 1)].entry_only) {
    return false;
  }
  // Deeper on the stack, or a tail call into another function: nested. Otherwise the outer call ended without an
  // observed return (longjmp, an exception).
  return stack_pointer < flight->stack_pointer || (stack_pointer == flight->stack_pointer && row != flight->row);
}

// From here on it is the thread's call in flight.
static __always_inline void begin_call(struct call_in_flight* flight, const volatile struct st_call_spec* spec,
                                       const struct st_arguments* arguments, u64 cookie, u64 stack_pointer, u64 now) {
  flight->stack_pointer = stack_pointer;
  flight->entry_ns = now;
  flight->row = cookie & (ST_MAX_CALLS - 1);
  flight->room = ST_ROOM_NOT_ASKED;
  flight->int_handles = (cookie & ST_COOKIE_INT_HANDLES) != 0;
  flight->comm =
      spec->options ? user_u64(argument(arguments, 1)) : handle_argument(arguments, spec->comm, flight->int_handles);
  flight->stream = argument(arguments, spec->stream);
  flight->event = argument(arguments, spec->event);
  flight->nranks = (u32)argument(arguments, spec->nranks);
  flight->out_address = argument(arguments, spec->new_comm ?: spec->out);
  flight->requests = argument(arguments, spec->request);
  flight->done_address = argument(arguments, spec->done);
  flight->indices_address = argument(arguments, spec->indices);
}

static __always_inline int enter_call(struct pt_regs* ctx, bool atomic_fetch) {
  const struct st_registers* registers = (const struct st_registers*)ctx;
  const u64 cookie = cookie_of(ctx);
  const u32 row = cookie & (ST_MAX_CALLS - 1);
  const volatile struct st_call_spec* spec = &calls[row];
  const u64 id = bpf_get_current_pid_tgid();
  const u32 tgid = id >> 32;
  struct task_struct* task = current_task();

  struct st_process* process = traced_process(task, id);
  if (!process) {
    return 0;
  }
  struct call_in_flight* flight = flight_of(task, (u32)id, true);
  if (!flight) {
    count_loss(ST_LOSS_THREAD_STATE);
    return 0;
  }
  if (spec->kind == ST_CALL_FINISHED || spec->kind == ST_CALL_FAILED) {
    finish_call(flight, process, spec->kind == ST_CALL_FAILED, id);
    return 0;
  }
  const u64 stack_pointer = ST_STACK_POINTER(registers);
  if (is_nested(flight, spec, stack_pointer, row)) {
    return 0;
  }
  struct st_arguments arguments = {};
  const struct st_call_spec arguments_spec = {.id_by_value = spec->id_by_value,
                                              .stack_arguments = spec->stack_arguments};
  st_read_arguments(registers, &arguments_spec, &arguments);

  const u64 now = bpf_ktime_get_ns();
  begin_call(flight, spec, &arguments, cookie, stack_pointer, now);
  switch (spec->kind) {
    case ST_CALL_DATA: {
      process->last_call_ns = now;
      const u64 peer =
          spec->peer ? ((u64)spec->operation << 32 | (u32)argument(&arguments, spec->peer)) : ST_SEQUENCE_COLLECTIVE;
      flight->sequence_peer = peer;
      const u64 call_site = note_call_site(ctx, registers, flight, process, now, id);
      const u64 sequence = take_sequence(process, tgid, flight->comm, peer, atomic_fetch);
      if (sequence == ST_NO_SEQUENCE) {
        flight->room = ST_ROOM_REFUSED;
      } else {
        if (spec->library == ST_LIBRARY_NCCL && sequence < ST_IDENTITY_READINGS) {
          report_identity(flight->comm, peer == ST_SEQUENCE_COLLECTIVE ? sequence : ST_NO_SEQUENCE);
        }
        emit_entry(&arguments, spec, flight, process, sequence, id, call_site);
      }
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
        emit_entry(&arguments, spec, flight, process, 0, id, 0);
      }
      break;
    case ST_CALL_COMM_INIT:
    case ST_CALL_COMM_INIT_ALL:
    case ST_CALL_COMM_SPLIT:
    case ST_CALL_WORLD_INIT:
      emit_comm_init(&arguments, spec, flight, process, id);
      break;
    case ST_CALL_SET_UP:
      emit_return(flight, process, 0, 0, 0, now, id, BPF_RB_FORCE_WAKEUP);
      break;
    case ST_CALL_COMM_END:
    case ST_CALL_WORLD_END:
      emit_entry(&arguments, spec, flight, process, 0, id, 0);
      break;
    case ST_CALL_WAIT_REQUEST:
    case ST_CALL_WAIT_ALL_REQUESTS:
    case ST_CALL_WAIT_ANY_REQUEST:
    case ST_CALL_WAIT_SOME_REQUESTS:
      note_requests(&arguments, spec, flight, task, (u32)id);
      break;
  }
  return 0;
}

SEC("uprobe")
int call_entry(struct pt_regs* ctx) { return enter_call(ctx, true); }

SEC("uprobe")
int call_entry_without_atomic_fetch(struct pt_regs* ctx) { return enter_call(ctx, false); }

// One of the communicators that the current thread's ncclCommInitAll has made; the record's `comm` is its index, which
// is its rank. No static function: the verifier looks at it once, not once for each.
__noinline int emit_member(u32 index, u64 now) {
  const u64 id = bpf_get_current_pid_tgid();
  const struct call_in_flight* flight = flight_of(current_task(), (u32)id, false);
  if (!flight) {
    return 0;
  }
  u64 comm = 0;
  bpf_probe_read_user(&comm, sizeof(comm), (const void*)(flight->out_address + index * sizeof(comm)));
  forget_sequence(comm);
  if (flight->room == ST_ROOM_PAID) {
    send_return(flight, index, comm, 0, now, id, BPF_RB_FORCE_WAKEUP);
  }
  return 0;
}

static __always_inline void emit_members(const struct call_in_flight* flight, u64 now) {
  const u32 count = flight->nranks;
  for (u32 i = 0; i < ST_MAX_LOCAL_RANKS && i < count; i++) {
    emit_member(i, now);
  }
}

// The value that a call wrote through an argument: a new communicator, its request, or the queried int.
static __always_inline u64 written_by(const volatile struct st_call_spec* spec, const struct call_in_flight* flight) {
  u64 value = 0;
  if (flight->out_address && spec->new_comm) {
    value = handle_at(flight->out_address, flight->int_handles);
    forget_sequence(value);
  } else if (spec->request) {
    value = handle_at(flight->requests, flight->int_handles);
  } else if (flight->out_address) {
    bpf_probe_read_user(&value, sizeof(u32), (const void*)flight->out_address);
  }
  return value;
}

static __always_inline void end_call(const volatile struct st_call_spec* spec, const struct call_in_flight* flight,
                                     const struct st_process* process, s32 return_code, u64 now, u64 id) {
  emit_return(flight, process, flight->comm, written_by(spec, flight), return_code, now, id,
              ST_WAKE_FLAGS(&collective_ring));
}

SEC("uretprobe")
int call_return(struct pt_regs* ctx) {
  const struct st_registers* registers = (const struct st_registers*)ctx;
  const u32 row = cookie_of(ctx) & (ST_MAX_CALLS - 1);
  const volatile struct st_call_spec* spec = &calls[row];
  const u64 id = bpf_get_current_pid_tgid();
  const u32 tgid = id >> 32;
  struct task_struct* task = current_task();

  struct call_in_flight* flight = flight_of(task, (u32)id, false);
  if (!flight || !flight->stack_pointer || flight->row != row ||
      ST_ENTRY_STACK_POINTER_AT_RETURN(registers) < flight->stack_pointer) {
    return 0;  // the return of a nested call, or of one entered before tracing began
  }
  if (found_nothing(flight)) {
    flight->stack_pointer = 0;
    return 0;
  }
  struct st_process* process = calling_process(task, tgid);
  if (!process) {
    return 0;
  }
  const u64 now = bpf_ktime_get_ns();
  const s32 return_code = (s32)ST_RETURN_VALUE(registers);
  switch (spec->kind) {
    case ST_CALL_DATA:
      if (return_code != 0 && !(spec->library <= ST_LIBRARY_RCCL && return_code == ST_NCCL_IN_PROGRESS)) {
        give_back_sequence(process, tgid, flight->comm,
                           flight->sequence_peer);  // refused: the library did not count it either
      }
      end_call(spec, flight, process, return_code, now, id);
      break;
    case ST_CALL_GROUP_START:
      break;
    case ST_CALL_GROUP_END:
      if (flight->group_depth == 1) {
        end_call(spec, flight, process, return_code, now, id);
      }
      if (flight->group_depth > 0) {
        flight->group_depth--;
      }
      break;
    case ST_CALL_COMM_INIT_ALL:
      if (return_code == 0 && flight->nranks > 0) {
        emit_members(flight, now);
      } else {
        end_call(spec, flight, process, return_code, now, id);
      }
      break;
    case ST_CALL_SYNC_STREAM:
    case ST_CALL_SYNC_DEVICE:
    case ST_CALL_SYNC_EVENT:
    case ST_CALL_EVENT_RECORD:
    case ST_CALL_STREAM_WAIT_EVENT:
    case ST_CALL_BEGIN_CAPTURE:
    case ST_CALL_END_CAPTURE:
    case ST_CALL_GRAPH_LAUNCH:
      emit_sync(spec, flight, process, flight->event, return_code, now, id);
      break;
    case ST_CALL_WAIT_REQUEST:
    case ST_CALL_WAIT_ALL_REQUESTS:
    case ST_CALL_WAIT_ANY_REQUEST:
    case ST_CALL_WAIT_SOME_REQUESTS:
      emit_waits(spec, flight, process, task, return_code, now, id);
      break;
    default:
      end_call(spec, flight, process, return_code, now, id);
      break;
  }
  flight->stack_pointer = 0;
  return 0;
}

#endif
